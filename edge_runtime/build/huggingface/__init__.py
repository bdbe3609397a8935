"""Makes graphs for ONNX Runtime of a Hugging Face folder, whose float weights are quantized here.

safetensors_folder  its tensors              config     sizes, from `config.json`
lora                an adapter's products    quantize   floats to blocks
tensors             names and precision      folder     all of it, for the Llama family
builder             other families, through onnxruntime-genai's model builder
"""
