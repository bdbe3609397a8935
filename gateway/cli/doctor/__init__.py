"""What `tidegate doctor` looks at before, while or instead of running: each look yields findings, and each its way out.

finding    what was found, and what mends it        checkup   all looks, in order
configuration   settings, policy, secrets           machine   disk, memory, clock, permissions
programs   ports, models, execution providers       reach     targets, through the control door
"""
