"""The policy: its document, how it is read and checked, and the language of its conditions."""
