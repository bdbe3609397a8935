"""What can be said of a policy before it is in force: proofs, comparisons, replays. Pure, as all of the brain."""
