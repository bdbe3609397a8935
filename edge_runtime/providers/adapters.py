"""The execution providers that can be named in the settings, with the options that each is known to take.

Options are ONNX Runtime's own, from the pages of its providers and the help of their packages; `device` is ours. A
provider that is in this table works nowhere until a probe has passed: `tidegate doctor` and `/status` say so.
"""

from __future__ import annotations

import json

from edge_runtime.providers.adapter import DEVICE, Adapter, BuiltInAdapter, Option, PluginAdapter
from edge_runtime.providers.sessions import CPU_PROVIDER

_NVIDIA = ("/proc/driver/nvidia/version", "/dev/dxg")
_EVERYWHERE = frozenset({"CPU", "GPU", "NPU"})
# Without it OpenVINO rounds to bfloat16 on CPUs that can: three times as fast, and off by 0.6 % of the largest number.
_EXACT = json.dumps({"CPU": {"INFERENCE_PRECISION_HINT": "f32"}, "GPU": {"INFERENCE_PRECISION_HINT": "f32"}})
_DEVICE = Option(DEVICE, "`CPU`, `GPU` or `NPU`; the first of NPU, GPU, CPU that is there, if nothing is said")

CPU_ADAPTER = BuiltInAdapter("cpu", CPU_PROVIDER, "any CPU", "it comes with onnxruntime", kinds=("CPU",), options=())

OPENVINO = PluginAdapter(
    "openvino",
    "OpenVINOExecutionProvider",
    "an Intel CPU, GPU or NPU",
    "pip install onnxruntime-ep-openvino",
    package="onnxruntime-ep-openvino",
    module="onnxruntime_ep_openvino",
    static_on=frozenset({"NPU"}),
    options=(
        _DEVICE,
        Option(
            "load_config",
            "JSON of OpenVINO's own properties by device. By default numbers stay float32: `{}` lets a CPU with "
            "AMX or AVX-512 BF16 round them, for speed",
            _EXACT,
        ),
        Option("num_of_threads", "threads of the CPU device"),
        Option("num_streams", "runs at once"),
        Option("model_priority", "`LOW`, `MEDIUM`, `HIGH` or `DEFAULT`, where models share a device"),
        Option("cache_dir", "folder of compiled graphs"),
    ),
    cache_option="cache_dir",
)

QNN = PluginAdapter(
    "qnn",
    "QNNExecutionProvider",
    "a Qualcomm Hexagon NPU or Adreno GPU",
    "pip install onnxruntime-qnn",
    package="onnxruntime-qnn",
    module="onnxruntime_qnn",
    static_on=_EVERYWHERE,
    options=(
        _DEVICE,
        Option("backend_type", "`htp` (NPU), `gpu` or `cpu`"),
        Option("backend_path", "library of the backend, instead of its type"),
        Option("htp_performance_mode", "`burst`, `balanced`, `high_performance`, `power_saver`, …"),
        Option("htp_graph_finalization_optimization_mode", "`0` to `3`: longer compilation for a faster graph"),
        Option("htp_arch", "architecture of the NPU, such as `73`"),
        Option("soc_model", "number of the system on chip"),
        Option("device_id", "which NPU"),
        Option("enable_htp_fp16_precision", "`1` computes float32 graphs in float16"),
        Option("vtcm_mb", "memory on the NPU, in MB"),
        Option("qnn_context_priority", "`low`, `normal`, `normal_high` or `high`"),
        Option("rpc_control_latency", "microseconds of the line to the NPU"),
        Option("offload_graph_io_quantization", "`1` leaves quantizing of inputs and outputs to the CPU"),
    ),
)

CUDA = BuiltInAdapter(
    "cuda",
    "CUDAExecutionProvider",
    "an NVIDIA GPU with its driver, CUDA and cuDNN",
    "install onnxruntime-gpu in place of onnxruntime",
    signs=_NVIDIA,
    options=(
        Option("device_id", "which GPU"),
        Option("gpu_mem_limit", "bytes of its arena"),
        Option("arena_extend_strategy", "`kNextPowerOfTwo` or `kSameAsRequested`", "kSameAsRequested"),
        Option("cudnn_conv_algo_search", "`EXHAUSTIVE`, `HEURISTIC` or `DEFAULT`", "HEURISTIC"),
        Option("do_copy_in_default_stream", "`0` copies beside computing; results can then be wrong"),
        Option("cudnn_conv_use_max_workspace", "`0` takes less memory"),
        Option("enable_cuda_graph", "`1` records runs; shapes must then be fixed"),
        Option("use_tf32", "`1` rounds factors to 10 bits, for speed", "0"),
        Option("prefer_nhwc", "`1` keeps channels last"),
    ),
)

TENSORRT = BuiltInAdapter(
    "tensorrt",
    "TensorrtExecutionProvider",
    "an NVIDIA GPU with its driver, CUDA and TensorRT",
    "install onnxruntime-gpu in place of onnxruntime, and TensorRT",
    signs=_NVIDIA,
    options=(
        Option("device_id", "which GPU"),
        Option("trt_max_workspace_size", "bytes of scratch memory"),
        Option("trt_fp16_enable", "`1` computes in float16"),
        Option("trt_int8_enable", "`1` computes in int8; needs a calibration table or a quantized graph"),
        Option("trt_builder_optimization_level", "`0` to `5`"),
        Option("trt_engine_cache_enable", "`1` keeps compiled engines", "1"),
        Option("trt_engine_cache_path", "where"),
        Option("trt_timing_cache_enable", "`1` keeps what compiling measured"),
        Option("trt_timing_cache_path", "where"),
        Option("trt_profile_min_shapes", "smallest shapes of free dimensions, as `input:1x3x224x224`"),
        Option("trt_profile_opt_shapes", "the usual ones"),
        Option("trt_profile_max_shapes", "the largest ones"),
        Option("trt_cuda_graph_enable", "`1` records runs; shapes must then be fixed"),
    ),
    cache_option="trt_engine_cache_path",
)

COREML = BuiltInAdapter(
    "coreml",
    "CoreMLExecutionProvider",
    "a Mac",
    "it comes with onnxruntime for macOS",
    kinds=("NPU",),
    signs=("/System/Library/CoreServices",),
    options=(
        Option("MLComputeUnits", "`ALL`, `CPUAndNeuralEngine`, `CPUAndGPU` or `CPUOnly`"),
        Option("ModelFormat", "`MLProgram` (Core ML 5 and later) or `NeuralNetwork`", "MLProgram"),
        Option("RequireStaticInputShapes", "`1` takes no node with a free dimension", "1"),
        Option("EnableOnSubgraphs", "`1` takes bodies of loops and branches too"),
        Option("SpecializationStrategy", "`Default` or `FastPrediction`"),
        Option("AllowLowPrecisionAccumulationOnGPU", "`1` sums in float16"),
        Option("ProfileComputePlan", "`1` logs what runs where"),
        Option("ModelCacheDirectory", "folder of compiled graphs"),
    ),
    cache_option="ModelCacheDirectory",
)

VITISAI = BuiltInAdapter(
    "vitisai",
    "VitisAIExecutionProvider",
    "an AMD XDNA NPU (Ryzen AI) or an adaptable SoC",
    "AMD's Ryzen AI installer brings an onnxruntime with it",
    kinds=("NPU",),
    signs=("/sys/module/amdxdna", "/dev/accel/accel0", "/dev/dri/renderD128"),
    static_on=_EVERYWHERE,
    options=(
        Option("config_file", "of the compiler, for bfloat16 graphs"),
        Option("xclbin", "binary that configures the NPU, for int8 graphs"),
        Option("target", "`X2`, or `X1` for the backend of older NPUs"),
        Option("opt_level", "`0` to `3`"),
        Option("cache_dir", "folder of compiled graphs"),
        Option("cache_key", "folder in it"),
        Option("log_level", "`error`, `warning`, `info`"),
    ),
    cache_option="cache_dir",
)

_WEBGPU = "ep.webgpuexecutionprovider."
WEBGPU = PluginAdapter(
    "webgpu",
    "WebGpuExecutionProvider",
    "a GPU with a driver for Vulkan, Direct3D 12 or Metal",
    "pip install onnxruntime-ep-webgpu",
    package="onnxruntime-ep-webgpu",
    module="onnxruntime_ep_webgpu",
    options=(
        _DEVICE,
        Option("preferredLayout", "`NHWC` or `NCHW`"),
        Option("dawnBackendType", "`Vulkan` or `D3D12`"),
        Option("powerPreference", "`high-performance` or `low-power`"),
        Option("validationMode", "`disabled`, `wgpuOnly`, `basic` or `full`"),
        Option("enableGraphCapture", "`1` records runs; shapes must then be fixed"),
        Option("storageBufferCacheMode", "`disabled`, `lazyRelease`, `simple` or `bucket`"),
    ),
)

GGML = PluginAdapter(
    "ggml",
    "ggml",
    "any x86-64 or arm64 CPU; a GPU with Metal or Vulkan",
    "pip install --no-deps onnxruntime-ggml (it names an older onnxruntime than the one that it runs on)",
    package="onnxruntime-ggml",
    module="onnxruntime_ggml",
    locator="library_path",
    environment={"ORT_GGML_LOG": "error"},
    options=(
        Option("device", "`auto`, `gpu` or `cpu`: which of ggml's backends"),
        Option("threads", "of a run on the CPU"),
        Option("partial", "`1` takes parts of a graph too"),
    ),
)

ADAPTERS: tuple[Adapter, ...] = (CPU_ADAPTER, OPENVINO, QNN, CUDA, TENSORRT, COREML, VITISAI, WEBGPU, GGML)
