"""How targets are reached, how they fare, and what that means for one request."""
