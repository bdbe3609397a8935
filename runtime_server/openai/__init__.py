"""Answers as OpenAI's API writes them: one object, or the events of a stream.

Three members are ours: `timings`, on the whole answer and on the last chunk, `request_id` in errors, and `usage` as
vLLM has it, with the prompt tokens that were in the cache.
"""
