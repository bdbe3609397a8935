"""Makes a graph for ONNX Runtime of a GGUF file, without loss: its quantized blocks are carried over as they stand.

source       the file, checked            architecture  sizes, from its metadata
blocks       its types of blocks          tokenizer     tokenizer.json, from its metadata
weights      tensors to what the graph reads, written as they come
decoder      the graph                    folder        all of it, in onnxruntime-genai's folder format
"""
