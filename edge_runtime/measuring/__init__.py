"""What this machine can do with a model, and with which models.

bandwidth       how fast memory is read            speed          a model, on a real engine
device_profile  the file that keeps what was found known_models   shapes of models that people download
fit             which of those fit here            __main__       the commands
"""
