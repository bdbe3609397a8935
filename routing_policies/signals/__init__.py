"""What is measured of a request before anything is decided: its label, its deadline, its size."""
