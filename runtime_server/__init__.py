"""The front that both runtimes share: an OpenAI-speaking server over anything that satisfies `Engine`."""
