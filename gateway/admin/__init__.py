"""What operators reach the gateway by: its state and its policies, on a listener of its own, closed unless opened."""
