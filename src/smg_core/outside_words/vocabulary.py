"""The words that engines, stores, tool servers and collectors use when they tell of a fault.

A word that is not here is left out of the log, whoever said it. So a word belongs here where faults need it and where it says
nothing of a person: no names, no places, no verbs of everyday life. Lower case; an identifier such as `max_model_len` is looked
up part by part. Above: `filtering`.
"""

__all__ = ["MEASURES", "MEMORY_UNITS", "UNITS", "VOCABULARY"]

_JOINING = """
a an the of to in on at by for from with without within into onto over under above below between after before during since until
while when where and or not no nor but if than then as is are was were be been being it its this that these those there which
does do did has have had will would can could may must should too also only still already yet again because due per via
doesn't don't didn't isn't aren't wasn't couldn't can't won't hasn't cannot
"""

_SECTIONS: dict[str, str] = {
    "memory": """
        memory oom allocate allocated allocating allocation allocator alloc free freed reserved fragmentation fragmented byte
        bytes kb mb gb tb kib mib gib tib capacity heap stack buffer buffers swap swapped pinned host device devices page pages
        exhausted exhaustion insufficient enough out run ran tried try leak pool mmap shm shmem shared segment usage used
        utilization remaining available total
    """,
    "gpu and compute": """
        cuda gpu gpus cpu cpus nvidia amd rocm hip nccl rccl cublas cudnn cusparse cusolver cutlass triton nvlink pcie nvshmem
        driver drivers kernel kernels launch launched launches illegal access address misaligned assert asserted assertion side
        synchronize synchronized sync async asynchronous asynchronously stream streams graph graphs capture captured capturing
        compile compiled compilation compute capability sm ecc xid uncorrectable hardware thermal fallen bus tpu hpu npu xpu mps
        metal mlx rank ranks world group groups collective allreduce all reduce gather scatter broadcast barrier watchdog tensor
        tensors parallel pipeline expert experts
    """,
    "numbers and shapes": """
        shape shapes dimension dimensions dim dims size sizes dtype type types float float16 float32 float64 bfloat16 half fp8
        fp16 bf16 int int8 int32 int64 uint8 bool str string strings list dict tuple object objects array arrays null none nan
        inf infinity true false integer integers number numbers count counts index indices range bounds bound negative positive
        zero nonzero finite overflow underflow division
    """,
    "network": """
        connection connections connect connected connecting disconnect disconnected reconnect refused reset resets closed close
        closing open opened opening broken pipe peer peers socket sockets tcp udp tls ssl http https http2 h2 grpc ipv4 ipv6 dns
        hostname resolve resolved resolution lookup network unreachable reachable route host hosts port ports address addresses
        timeout timeouts timed time deadline exceeded exceed exceeds keepalive ping handshake certificate certificates verify
        verification failed goaway frame frames header headers trailer trailers proxy gateway upstream downstream transport
        channel channels subchannel endpoint endpoints server servers client clients remote local eof stream transient failure
        last error errors bind listen read reading write writing written send sending sent receive received receiving
    """,
    "http and grpc": """
        status code codes bad request requests unauthorized forbidden found method methods allowed conflict gone length required
        payload large unsupported media entity unprocessable many internal implemented unavailable service services ok cancelled
        canceled unknown invalid argument arguments permission denied resource precondition aborted unimplemented data loss
        unauthenticated already exists redirect location content encoding accept body bodies path url response responses reply
        answer answers rpc call calls caller
    """,
    "processes": """
        engine engines core enginecore asyncllm dead died dies die killed kill signal signals sigterm sigkill sigsegv sigabrt
        sigint worker workers process processes subprocess child children parent thread threads exit exited exiting exits crash
        crashed crashes segfault segmentation fault faults abort terminate terminated terminating termination shutdown shut
        shutting down stop stopped stopping start started starting startup restart restarted restarting ready initialize
        initialized initializing initialization init load loaded loading unload unloaded sleep sleeping asleep wake awake pause
        paused pausing resume resumed serve serves served loop event busy idle stuck hung hang health healthy unhealthy alive
        executor scheduler scheduled scheduling spawn spawned zmq ray actor actors launcher node nodes supervisor
    """,
    "queues and load": """
        queue queues queued full overloaded overload load rate limit limits limited limiting throttle throttled quota retry
        retries retried retrying later backoff wait waiting waits waited pending running concurrency concurrent slot slots
        capacity admission admitted rejected reject backpressure preempt preempted preemption evict evicted eviction priority
        scale scaling draining drained drain seconds second ms milliseconds minutes minute
    """,
    "model and input": """
        model models context max maximum min minimum len window token tokens tokenizer tokenize tokenized tokenization
        detokenize detokenized vocab vocabulary prompt prompts input inputs output outputs completion completions embedding
        embeddings embeds long longer longest short shorter less greater more fewer larger smaller equal equals least most
        exceeds model's engine's requested however sequence sequences seq position positions batch batches batched chunk chunks
        chunked prefill decode decoding generation generate generated generating sampling sample sampler logits logprobs logprob
        temperature top p k penalty seed stop stops ids id eos bos pad padding special template templates chat message messages
        role roles adapter adapters lora loras base weight weights layer layers attention head heads rope mask hidden
        quantization quantized checkpoint safetensors config configuration revision architecture architectures trust code guided
        grammar grammars regex schema schemas json xgrammar outlines llguidance structural tag tags speculative draft multimodal
        image images video videos audio modality modalities pixel pixels encoder decoder embed pooling pooler score rerank
        classify reasoning choice choices delta usage finish tool tools function functions truncate truncated truncation reduce
    """,
    "cache": """
        kv cache caches cached block blocks prefix offload offloading connector nixl mooncake transfer transferred transfers
        transferring handover bootstrap room disaggregation disaggregated hash hit miss flush flushed table tables page paged
    """,
    "values and checks": """
        property properties parameter parameters param params value values field fields key keys name names option options
        setting settings flag flags got get given expected expect expecting unexpected missing mismatch mismatched mismatching
        match matching duplicate duplicated supported support supports valid validate validation validator invalid illegal
        malformed parse parsed parser parsing syntax format formatted decode decoded decodes encode encoded undefined default
        defaults deprecated extra trailing leading character characters utf8 utf line lines column columns empty set unset
        specified provided enabled disabled enable disable compatible incompatible version versions greater range between either
        both same different
    """,
    "causes": """
        exception exceptions traceback runtime oserror ioerror attribute attributes import module modules lookup value type name
        system recursion depth stop iteration assertion permission file files directory folder exist error warning fatal panic
        panicked critical encountered issue trace root errno unexpectedly occurred occur raised raise throw thrown caused cause
        reason unknown unable able failed fails fail failing failure failures cannot could unhandled uncaught handler caught bug
        invariant violation violated corrupt corrupted corruption inconsistent state inconsistency lost loss lock locked
        deadlock race busy operation operations operational action temporary temporarily permanent permanently try again please
        contact check see log logs details detail info debug reported report
    """,
    "stores": """
        database databases sql sqlite postgres postgresql mysql oracle redis disk device space left readonly table tables row
        rows transaction transactions commit rollback constraint unique foreign integrity connection pool statement query
        queries cursor cluster replica master primary moved maxmemory command commands used user role password required
        authentication authorization auth insufficient privilege shutting administrator terminating wrongtype noauth oom image
        schema migration such
    """,
    "libraries": """
        torch pytorch python vllm sglang tgi tensorrt trt trtllm llm lightllm transformers huggingface numpy asyncio aiohttp
        uvicorn fastapi starlette pydantic msgspec jinja jinja2 protobuf proto grpcio requests httpx openai mcp otlp
        opentelemetry collector exporter export exporting span spans partial success dropped jsonrpc protocol session sessions
        initialize initialized
    """,
}

VOCABULARY = frozenset(_JOINING.split()) | {word for section in _SECTIONS.values() for word in section.split()}

MEASURES = frozenset(
    [
        "status",
        "errno",
        "signal",
        "exit",
        "rank",
        "ranks",
        "gpu",
        "device",
        "worker",
        "len",
        "length",
        "max",
        "min",
        "maximum",
        "minimum",
        "limit",
        "size",
        "timeout",
        "capacity",
        "retries",
    ]
)
"""A number behind one of these words is what it measures."""
UNITS = frozenset(["tokens", "seconds", "ms", "percent", "requests", "workers"])
"""A number before one of these words counts them."""
MEMORY_UNITS = frozenset(["byte", "bytes", "kb", "mb", "gb", "tb", "kib", "mib", "gib", "tib"])
"""As `UNITS`; a fault may have several numbers of them, of which none says anything of a prompt."""
