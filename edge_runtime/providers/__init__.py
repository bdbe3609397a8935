"""Execution providers: what computes a graph. They are measured, not assumed.

adapter      what is known of one provider        adapters    all that are known
cpu          sessions on the CPU                  processor   what this CPU can multiply
messages     tensors between two processes        worker      a provider, in a process of its own
process      that process, watched and bounded    samples     inputs to try a graph with
prober       what a provider does with a graph    report      what that came to, in words and numbers
identity     for how long it holds                book        the file that keeps it, and quarantine
selection    which provider does some work        opened      a graph that answers, whatever its provider does
providers    all of it, for a runtime             __main__    the commands

The runtime loads no provider's code but the CPU's: whatever another one does, it does to its own process.
"""
