"""How a program of ours is served: the socket it is reached by, and its way from a signal to a clean end."""
