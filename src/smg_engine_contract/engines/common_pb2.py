# Made by tools/proto.py from smg-grpc-proto 0.4.28, common.proto; do not edit.
"""The messages of what engines' contracts have alike."""

from google.protobuf import message_factory

from smg_engine_contract.engines.pool import POOL

_FILE = POOL.AddSerializedFile(
    b'\n\x0ccommon.proto\x12\x0fsmg.grpc.common"\x15\n\x13GetTokenizerRequest"?\n\x11GetTokenizerChunk\x12\x12\n\x04data\x18\x01 \x01(\x0cR\x04data\x12\x16\n\x06s'
    b'ha256\x18\x02 \x01(\tR\x06sha256"\x94\x01\n\x18SubscribeKvEventsRequest\x122\n\x15start_sequence_number\x18\x01 \x01(\x04R\x13startSequenceNumber'
    b'\x12D\n\x1fload_records_before_first_batch\x18\x02 \x01(\x08R\x1bloadRecordsBeforeFirstBatch"\xb1\x02\n\x0cKvEventBatch\x12\'\n\x0fsequence_'
    b'number\x18\x01 \x01(\x04R\x0esequenceNumber\x12\x1c\n\ttimestamp\x18\x02 \x01(\x01R\ttimestamp\x125\n\x06events\x18\x03 \x03(\x0b2\x1d.smg.grpc.common.KvCache'
    b'EventR\x06events\x12\x1c\n\x07dp_rank\x18\x04 \x01(\x05H\x00R\x06dpRank\x88\x01\x01\x12<\n\x08snapshot\x18\x07 \x01(\x0b2 .smg.grpc.common.KvSnapshotChunkR\x08sna'
    b'pshot\x12/\n\x04load\x18\x08 \x01(\x0b2\x1b.smg.grpc.common.EngineLoadR\x04loadB\n\n\x08_dp_rankJ\x04\x08\x05\x10\x06J\x04\x08\x06\x10\x07"\x95\n\n\nEngineLoad\x12)\n\x10run'
    b'ning_requests\x18\x01 \x01(\rR\x0frunningRequests\x12)\n\x10waiting_requests\x18\x02 \x01(\rR\x0fwaitingRequests\x12;\n\x17waiting_uncached_'
    b'tokens\x18\x03 \x01(\rH\x00R\x15waitingUncachedTokens\x88\x01\x01\x12\x1f\n\x0btoken_usage\x18\x04 \x01(\x01R\ntokenUsage\x121\n\x12active_token_usage\x18\x12 \x01('
    b'\x01H\x01R\x10activeTokenUsage\x88\x01\x01\x12%\n\x0egen_throughput\x18\x05 \x01(\x01R\rgenThroughput\x120\n\x14max_running_requests\x18\x06 \x01(\rR\x12maxRu'
    b'nningRequests\x12\x15\n\x06age_ms\x18\x07 \x01(\rR\x05ageMs\x12\x16\n\x06sample\x18\x08 \x01(\x04R\x06sample\x12\x1b\n\tload_only\x18\t \x01(\x08R\x08loadOnly\x12)\n\x0ecache_h'
    b'it_rate\x18\n \x01(\x01H\x02R\x0ccacheHitRate\x88\x01\x01\x12+\n\x0fnum_used_tokens\x18\x0b \x01(\x05H\x03R\rnumUsedTokens\x88\x01\x01\x124\n\x14max_total_num_token'
    b's\x18\x0c \x01(\x05H\x04R\x11maxTotalNumTokens\x88\x01\x01\x12:\n\x06memory\x18\r \x01(\x0b2\x1d.smg.grpc.common.EngineMemoryH\x05R\x06memory\x88\x01\x01\x12:\n\x06queue'
    b's\x18\x0e \x01(\x0b2\x1d.smg.grpc.common.EngineQueuesH\x06R\x06queues\x88\x01\x01\x12I\n\x0bspeculative\x18\x0f \x01(\x0b2".smg.grpc.common.EngineSpe'
    b'culativeH\x07R\x0bspeculative\x88\x01\x01\x124\n\x04lora\x18\x10 \x01(\x0b2\x1b.smg.grpc.common.EngineLoraH\x08R\x04lora\x88\x01\x01\x12R\n\x0edisaggregation\x18\x11'
    b' \x01(\x0b2%.smg.grpc.common.EngineDisaggregationH\tR\x0edisaggregation\x88\x01\x01\x12/\n\x11engine_silence_ms\x18\x13 \x01(\rH\nR\x0fengin'
    b'eSilenceMs\x88\x01\x01\x125\n\x14engine_reports_steps\x18\x14 \x01(\x08H\x0bR\x12engineReportsSteps\x88\x01\x01\x129\n\x16prefill_pending_tokens\x18\x15 \x01(\r'
    b'H\x0cR\x14prefillPendingTokens\x88\x01\x01B\x1a\n\x18_waiting_uncached_tokensB\x15\n\x13_active_token_usageB\x11\n\x0f_cache_hit_rateB\x12\n'
    b'\x10_num_used_tokensB\x17\n\x15_max_total_num_tokensB\t\n\x07_memoryB\t\n\x07_queuesB\x0e\n\x0c_speculativeB\x07\n\x05_loraB\x11\n\x0f_disagg'
    b'regationB\x14\n\x12_engine_silence_msB\x17\n\x15_engine_reports_stepsB\x19\n\x17_prefill_pending_tokens"\x8d\x01\n\x0cEngineMemory\x12'
    b'\x1b\n\tweight_gb\x18\x01 \x01(\x01R\x08weightGb\x12\x1e\n\x0bkv_cache_gb\x18\x02 \x01(\x01R\tkvCacheGb\x12\x19\n\x08graph_gb\x18\x03 \x01(\x01R\x07graphGb\x12%\n\x0etoken_cap'
    b'acity\x18\x04 \x01(\x05R\rtokenCapacity"x\n\x0cEngineQueues\x12\x18\n\x07waiting\x18\x01 \x01(\x05R\x07waiting\x12\x18\n\x07grammar\x18\x02 \x01(\x05R\x07grammar\x12\x16\n\x06pa'
    b'used\x18\x03 \x01(\x05R\x06paused\x12\x1c\n\tretracted\x18\x04 \x01(\x05R\tretracted"Y\n\x11EngineSpeculative\x12#\n\raccept_length\x18\x01 \x01(\x01R\x0caccept'
    b'Length\x12\x1f\n\x0baccept_rate\x18\x02 \x01(\x01R\nacceptRate"n\n\nEngineLora\x12\x1d\n\nslots_used\x18\x01 \x01(\x05R\tslotsUsed\x12\x1f\n\x0bslots_total\x18'
    b'\x02 \x01(\x05R\nslotsTotal\x12 \n\x0butilization\x18\x03 \x01(\x01R\x0butilization"\xca\x03\n\x14EngineDisaggregation\x12\x12\n\x04mode\x18\x01 \x01(\tR\x04mode\x12=\n\x1b'
    b'prefill_prealloc_queue_reqs\x18\x02 \x01(\x05R\x18prefillPreallocQueueReqs\x12=\n\x1bprefill_inflight_queue_reqs\x18\x03 \x01(\x05R\x18pr'
    b'efillInflightQueueReqs\x12;\n\x1adecode_prealloc_queue_reqs\x18\x04 \x01(\x05R\x17decodePreallocQueueReqs\x12;\n\x1adecode_transf'
    b'er_queue_reqs\x18\x05 \x01(\x05R\x17decodeTransferQueueReqs\x12=\n\x1bdecode_retracted_queue_reqs\x18\x06 \x01(\x05R\x18decodeRetractedQu'
    b'eueReqs\x122\n\x16kv_transfer_speed_gb_s\x18\x07 \x01(\x01R\x12kvTransferSpeedGbS\x123\n\x16kv_transfer_latency_ms\x18\x08 \x01(\x01R\x13kvTrans'
    b'ferLatencyMs"|\n\x0fKvSnapshotChunk\x12\x14\n\x05index\x18\x01 \x01(\rR\x05index\x12\x14\n\x05count\x18\x02 \x01(\rR\x05count\x12\x16\n\x06blocks\x18\x03 \x01(\x04R\x06blocks\x12'
    b'%\n\x0eunknown_before\x18\x04 \x01(\x04R\runknownBefore"\xe7\x01\n\x0cKvCacheEvent\x12\x19\n\x08event_id\x18\x01 \x01(\x04R\x07eventId\x129\n\x06stored\x18\x02 \x01(\x0b2\x1f'
    b'.smg.grpc.common.KvBlocksStoredH\x00R\x06stored\x12<\n\x07removed\x18\x03 \x01(\x0b2 .smg.grpc.common.KvBlocksRemovedH\x00R\x07remo'
    b'ved\x12;\n\x07cleared\x18\x04 \x01(\x0b2\x1f.smg.grpc.common.KvCacheClearedH\x00R\x07clearedB\x06\n\x04data"\xe7\x05\n\x0eKvBlocksStored\x120\n\x06block'
    b's\x18\x01 \x03(\x0b2\x18.smg.grpc.common.KvBlockR\x06blocks\x12/\n\x11parent_block_hash\x18\x02 \x01(\x03H\x00R\x0fparentBlockHash\x88\x01\x01\x125\n\x04tier\x18\x03'
    b' \x01(\x0e2\x1c.smg.grpc.common.KvCacheTierH\x01R\x04tier\x88\x01\x01\x12\x1b\n\x06medium\x18\x04 \x01(\tH\x02R\x06medium\x88\x01\x01\x12 \n\tgroup_idx\x18\x05 \x01(\rH\x03R\x08gro'
    b'upIdx\x88\x01\x01\x120\n\x12kv_cache_spec_kind\x18\x06 \x01(\tH\x04R\x0fkvCacheSpecKind\x88\x01\x01\x12C\n\x1ckv_cache_spec_sliding_window\x18\x07 \x01(\rH\x05R\x18'
    b'kvCacheSpecSlidingWindow\x88\x01\x01\x12A\n\x08locality\x18\x08 \x01(\x0e2 .smg.grpc.common.KvCacheLocalityH\x06R\x08locality\x88\x01\x01\x12!\n\tow'
    b'nership\x18\t \x01(\tH\x07R\townership\x88\x01\x01\x12"\n\nsession_id\x18\n \x01(\tH\x08R\tsessionId\x88\x01\x01\x12 \n\tlora_name\x18\x0b \x01(\tH\tR\x08loraName\x88\x01\x01\x12'
    b'"\n\ncache_salt\x18\x0c \x01(\tH\nR\tcacheSalt\x88\x01\x01B\x14\n\x12_parent_block_hashB\x07\n\x05_tierB\t\n\x07_mediumB\x0c\n\n_group_idxB\x15\n\x13_kv_c'
    b'ache_spec_kindB\x1f\n\x1d_kv_cache_spec_sliding_windowB\x0b\n\t_localityB\x0c\n\n_ownershipB\r\n\x0b_session_idB\x0c\n\n_lora_n'
    b'ameB\r\n\x0b_cache_salt"\xa2\x01\n\x0fKvBlockExtraKey\x12\x14\n\x04text\x18\x01 \x01(\tH\x00R\x04text\x12\x14\n\x04blob\x18\x02 \x01(\x0cH\x00R\x04blob\x12\x18\n\x06number\x18\x03 \x01(\x03H\x00'
    b'R\x06number\x12B\n\nmultimodal\x18\x04 \x01(\x0b2 .smg.grpc.common.KvMultimodalKeyH\x00R\nmultimodalB\x05\n\x03key"I\n\x0fKvMultimodalK'
    b'ey\x12\x1e\n\nidentifier\x18\x01 \x01(\tR\nidentifier\x12\x16\n\x06offset\x18\x02 \x01(\x03R\x06offset"\x85\x02\n\x07KvBlock\x12\x1d\n\nblock_hash\x18\x01 \x01(\x03R\tblockHas'
    b'h\x12\x1b\n\ttoken_ids\x18\x02 \x03(\rR\x08tokenIds\x12\x1d\n\nblock_size\x18\x03 \x01(\x05R\tblockSize\x12\x1c\n\x07lora_id\x18\x04 \x01(\x03H\x00R\x06loraId\x88\x01\x01\x12$\n\x0bcache'
    b'_level\x18\x05 \x01(\x05H\x01R\ncacheLevel\x88\x01\x01\x12?\n\nextra_keys\x18\x06 \x03(\x0b2 .smg.grpc.common.KvBlockExtraKeyR\textraKeysB\n\n\x08_l'
    b'ora_idB\x0e\n\x0c_cache_level"\x83\x03\n\x0fKvBlocksRemoved\x12!\n\x0cblock_hashes\x18\x01 \x03(\x03R\x0bblockHashes\x12$\n\x0bcache_level\x18\x02 \x01(\x05H\x00'
    b'R\ncacheLevel\x88\x01\x01\x125\n\x04tier\x18\x03 \x01(\x0e2\x1c.smg.grpc.common.KvCacheTierH\x01R\x04tier\x88\x01\x01\x12\x1b\n\x06medium\x18\x04 \x01(\tH\x02R\x06medium\x88\x01\x01\x12'
    b' \n\tgroup_idx\x18\x05 \x01(\rH\x03R\x08groupIdx\x88\x01\x01\x12A\n\x08locality\x18\x06 \x01(\x0e2 .smg.grpc.common.KvCacheLocalityH\x04R\x08locality\x88\x01\x01'
    b'\x12!\n\townership\x18\x07 \x01(\tH\x05R\townership\x88\x01\x01B\x0e\n\x0c_cache_levelB\x07\n\x05_tierB\t\n\x07_mediumB\x0c\n\n_group_idxB\x0b\n\t_localityB\x0c'
    b'\n\n_ownership"A\n\x0eKvCacheCleared\x12!\n\townership\x18\x01 \x01(\tH\x00R\townership\x88\x01\x01B\x0c\n\n_ownership"0\n\x11FlushCacheRequest'
    b'\x12\x1b\n\ttimeout_s\x18\x01 \x01(\x02R\x08timeoutS"H\n\x12FlushCacheResponse\x12\x18\n\x07success\x18\x01 \x01(\x08R\x07success\x12\x18\n\x07message\x18\x02 \x01(\tR\x07mess'
    b'age"\xe4\x02\n\x13StartProfileRequest\x12"\n\noutput_dir\x18\x01 \x01(\tH\x00R\toutputDir\x88\x01\x01\x12"\n\nstart_step\x18\x02 \x01(\x05H\x01R\tstartStep\x88\x01\x01\x12'
    b' \n\tnum_steps\x18\x03 \x01(\x05H\x02R\x08numSteps\x88\x01\x01\x12\x1e\n\nactivities\x18\x04 \x03(\tR\nactivities\x12"\n\nwith_stack\x18\x05 \x01(\x08H\x03R\twithStack\x88\x01'
    b'\x01\x12(\n\rrecord_shapes\x18\x06 \x01(\x08H\x04R\x0crecordShapes\x88\x01\x01\x12(\n\x10profile_by_stage\x18\x07 \x01(\x08R\x0eprofileByStageB\r\n\x0b_output_dir'
    b'B\r\n\x0b_start_stepB\x0c\n\n_num_stepsB\r\n\x0b_with_stackB\x10\n\x0e_record_shapes"\x14\n\x12StopProfileRequest"E\n\x0fProfileRespo'
    b'nse\x12\x18\n\x07success\x18\x01 \x01(\x08R\x07success\x12\x18\n\x07message\x18\x02 \x01(\tR\x07message"j\n\tShmHandle\x12\x12\n\x04name\x18\x01 \x01(\tR\x04name\x12\x16\n\x06offset\x18\x02'
    b' \x01(\x04R\x06offset\x12\x16\n\x06nbytes\x18\x03 \x01(\x04R\x06nbytes\x12\x19\n\x08owner_id\x18\x04 \x01(\tR\x07ownerId"j\n\x12RemoteTensorHandle\x12\x1c\n\ttransport\x18\x01'
    b' \x01(\tR\ttransport\x12\x1e\n\ndescriptor\x18\x02 \x01(\x0cR\ndescriptor\x12\x16\n\x06nbytes\x18\x03 \x01(\x04R\x06nbytes*\x92\x01\n\x0bKvCacheTier\x12\x1d\n\x19KV_CACHE_'
    b'TIER_UNSPECIFIED\x10\x00\x12\x18\n\x14KV_CACHE_TIER_DEVICE\x10\x01\x12\x16\n\x12KV_CACHE_TIER_HOST\x10\x02\x12\x16\n\x12KV_CACHE_TIER_DISK\x10\x03\x12\x1a\n\x16KV_C'
    b'ACHE_TIER_EXTERNAL\x10\x04*o\n\x0fKvCacheLocality\x12!\n\x1dKV_CACHE_LOCALITY_UNSPECIFIED\x10\x00\x12\x1b\n\x17KV_CACHE_LOCALITY_LOCA'
    b'L\x10\x01\x12\x1c\n\x18KV_CACHE_LOCALITY_REMOTE\x10\x02*E\n\x08Modality\x12\x18\n\x14MODALITY_UNSPECIFIED\x10\x00\x12\t\n\x05IMAGE\x10\x01\x12\t\n\x05AUDIO\x10\x02\x12\t\n\x05VID'
    b'EO\x10\x03b\x06proto3'
)


def _message(name):
    return message_factory.GetMessageClass(_FILE.message_types_by_name[name])


DESCRIPTOR = _FILE
GetTokenizerRequest = _message("GetTokenizerRequest")
GetTokenizerChunk = _message("GetTokenizerChunk")
SubscribeKvEventsRequest = _message("SubscribeKvEventsRequest")
KvEventBatch = _message("KvEventBatch")
EngineLoad = _message("EngineLoad")
EngineMemory = _message("EngineMemory")
EngineQueues = _message("EngineQueues")
EngineSpeculative = _message("EngineSpeculative")
EngineLora = _message("EngineLora")
EngineDisaggregation = _message("EngineDisaggregation")
KvSnapshotChunk = _message("KvSnapshotChunk")
KvCacheEvent = _message("KvCacheEvent")
KvBlocksStored = _message("KvBlocksStored")
KvBlockExtraKey = _message("KvBlockExtraKey")
KvMultimodalKey = _message("KvMultimodalKey")
KvBlock = _message("KvBlock")
KvBlocksRemoved = _message("KvBlocksRemoved")
KvCacheCleared = _message("KvCacheCleared")
FlushCacheRequest = _message("FlushCacheRequest")
FlushCacheResponse = _message("FlushCacheResponse")
StartProfileRequest = _message("StartProfileRequest")
StopProfileRequest = _message("StopProfileRequest")
ProfileResponse = _message("ProfileResponse")
ShmHandle = _message("ShmHandle")
RemoteTensorHandle = _message("RemoteTensorHandle")
KV_CACHE_TIER_UNSPECIFIED = 0
KV_CACHE_TIER_DEVICE = 1
KV_CACHE_TIER_HOST = 2
KV_CACHE_TIER_DISK = 3
KV_CACHE_TIER_EXTERNAL = 4
KV_CACHE_LOCALITY_UNSPECIFIED = 0
KV_CACHE_LOCALITY_LOCAL = 1
KV_CACHE_LOCALITY_REMOTE = 2
MODALITY_UNSPECIFIED = 0
IMAGE = 1
AUDIO = 2
VIDEO = 3
