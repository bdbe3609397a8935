"""What answers have cost: in money as the policy declares prices, in energy by estimate, in bytes that left."""
