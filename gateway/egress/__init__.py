"""The one way out of the gateway: the door for requests, the control door for everything that carries none."""
