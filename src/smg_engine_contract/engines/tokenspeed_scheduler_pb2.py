# Made by tools/proto.py from smg-grpc-proto 0.4.28, tokenspeed_scheduler.proto; do not edit.
"""The messages of TokenSpeed's contract."""

from google.protobuf import message_factory

from smg_engine_contract.engines import common_pb2 as common_pb2
from smg_engine_contract.engines.pool import POOL

_FILE = POOL.AddSerializedFile(
    b'\n\x1atokenspeed_scheduler.proto\x12\x19tokenspeed.grpc.scheduler\x1a\x1fgoogle/protobuf/timestamp.proto\x1a\x1cgoogle/pro'
    b'tobuf/struct.proto\x1a\x0ccommon.proto"\x93\t\n\x0eSamplingParams\x12%\n\x0btemperature\x18\x01 \x01(\x02H\x01R\x0btemperature\x88\x01\x01\x12\x18\n\x05top_p\x18'
    b'\x02 \x01(\x02H\x02R\x04topP\x88\x01\x01\x12\x18\n\x05top_k\x18\x03 \x01(\x05H\x03R\x04topK\x88\x01\x01\x12\x18\n\x05min_p\x18\x04 \x01(\x02H\x04R\x04minP\x88\x01\x01\x120\n\x11frequency_penalty\x18\x05 \x01(\x02H\x05R\x10f'
    b'requencyPenalty\x88\x01\x01\x12.\n\x10presence_penalty\x18\x06 \x01(\x02H\x06R\x0fpresencePenalty\x88\x01\x01\x122\n\x12repetition_penalty\x18\x07 \x01(\x02H\x07R\x11re'
    b'petitionPenalty\x88\x01\x01\x12)\n\x0emax_new_tokens\x18\x08 \x01(\rH\x08R\x0cmaxNewTokens\x88\x01\x01\x12$\n\x0emin_new_tokens\x18\t \x01(\rR\x0cminNewTokens\x12'
    b'\x12\n\x04stop\x18\n \x03(\tR\x04stop\x12$\n\x0estop_token_ids\x18\x0b \x03(\rR\x0cstopTokenIds\x12\x1d\n\nignore_eos\x18\x0c \x01(\x08R\tignoreEos\x12.\n\x13skip_spe'
    b'cial_tokens\x18\r \x01(\x08R\x11skipSpecialTokens\x12A\n\x1dspaces_between_special_tokens\x18\x0e \x01(\x08R\x1aspacesBetweenSpecialTok'
    b'ens\x12\x0c\n\x01n\x18\x0f \x01(\rR\x01n\x12W\n\nlogit_bias\x18\x10 \x03(\x0b28.tokenspeed.grpc.scheduler.SamplingParams.LogitBiasEntryR\tlog'
    b'itBias\x12\x16\n\x05regex\x18\x11 \x01(\tH\x00R\x05regex\x12!\n\x0bjson_schema\x18\x12 \x01(\tH\x00R\njsonSchema\x12#\n\x0cebnf_grammar\x18\x13 \x01(\tH\x00R\x0bebnfGramm'
    b"ar\x12'\n\x0estructural_tag\x18\x14 \x01(\tH\x00R\rstructuralTag\x12 \n\x0cno_stop_trim\x18\x16 \x01(\x08R\nnoStopTrim\x12<\n\rcustom_params\x18\x15 \x01(\x0b"
    b'2\x17.google.protobuf.StructR\x0ccustomParams\x12(\n\rsampling_seed\x18\x17 \x01(\x04H\tR\x0csamplingSeed\x88\x01\x01\x1a<\n\x0eLogitBiasEntry\x12'
    b'\x10\n\x03key\x18\x01 \x01(\tR\x03key\x12\x14\n\x05value\x18\x02 \x01(\x02R\x05value:\x028\x01B\x0c\n\nconstraintB\x0e\n\x0c_temperatureB\x08\n\x06_top_pB\x08\n\x06_top_kB\x08\n\x06_mi'
    b'n_pB\x14\n\x12_frequency_penaltyB\x13\n\x11_presence_penaltyB\x15\n\x13_repetition_penaltyB\x11\n\x0f_max_new_tokensB\x10\n\x0e_samplin'
    b'g_seed"\xb3\x06\n\x0fGenerateRequest\x12\x1d\n\nrequest_id\x18\x01 \x01(\tR\trequestId\x12G\n\ttokenized\x18\x02 \x01(\x0b2).tokenspeed.grpc.sched'
    b'uler.TokenizedInputR\ttokenized\x12R\n\x0fsampling_params\x18\x03 \x01(\x0b2).tokenspeed.grpc.scheduler.SamplingParamsR\x0e'
    b'samplingParams\x12%\n\x0ereturn_logprob\x18\x04 \x01(\x08R\rreturnLogprob\x12/\n\x11logprob_start_len\x18\x05 \x01(\x05H\x00R\x0flogprobStartLen\x88'
    b'\x01\x01\x12(\n\x10top_logprobs_num\x18\x06 \x01(\x05R\x0etopLogprobsNum\x12*\n\x11token_ids_logprob\x18\x07 \x03(\rR\x0ftokenIdsLogprob\x12\x16\n\x06stream\x18\x08'
    b' \x01(\x08R\x06stream\x12H\n\tmm_inputs\x18\t \x01(\x0b2+.tokenspeed.grpc.scheduler.MultimodalInputsR\x08mmInputs\x12g\n\x15encode_boo'
    b'tstrap_info\x18\n \x01(\x0b2..tokenspeed.grpc.scheduler.EncodeBootstrapInfoH\x01R\x13encodeBootstrapInfo\x88\x01\x01\x12[\n\x11kv_bo'
    b'otstrap_info\x18\x0b \x01(\x0b2*.tokenspeed.grpc.scheduler.KvBootstrapInfoH\x02R\x0fkvBootstrapInfo\x88\x01\x01\x121\n\x12data_paralle'
    b'l_rank\x18\x0c \x01(\x05H\x03R\x10dataParallelRank\x88\x01\x01B\x14\n\x12_logprob_start_lenB\x18\n\x16_encode_bootstrap_infoB\x14\n\x12_kv_bootstrap'
    b'_infoB\x15\n\x13_data_parallel_rank"_\n\x13EncodeBootstrapInfo\x12H\n\x05items\x18\x01 \x03(\x0b22.tokenspeed.grpc.scheduler.Encod'
    b'eItemBootstrapInfoR\x05items"\xad\x01\n\x17EncodeItemBootstrapInfo\x12\x1d\n\nitem_index\x18\x01 \x01(\rR\titemIndex\x12%\n\x0ebootstrap_ho'
    b'st\x18\x02 \x01(\tR\rbootstrapHost\x12%\n\x0ebootstrap_port\x18\x03 \x01(\x05R\rbootstrapPort\x12%\n\x0ebootstrap_room\x18\x04 \x01(\x03R\rbootstrapRoo'
    b'm"\x86\x01\n\x0fKvBootstrapInfo\x12%\n\x0ebootstrap_host\x18\x01 \x01(\tR\rbootstrapHost\x12%\n\x0ebootstrap_port\x18\x02 \x01(\x05R\rbootstrapPort\x12'
    b'%\n\x0ebootstrap_room\x18\x03 \x01(\x03R\rbootstrapRoom"R\n\x0eTokenizedInput\x12\x1b\n\tinput_ids\x18\x01 \x03(\rR\x08inputIds\x12#\n\roriginal_te'
    b'xt\x18\x02 \x01(\tR\x0coriginalText"\xcc\x01\n\nTensorData\x12\x14\n\x05shape\x18\x01 \x03(\rR\x05shape\x12\x14\n\x05dtype\x18\x02 \x01(\tR\x05dtype\x12\x18\n\x06inline\x18\x03 \x01(\x0cH\x00R'
    b'\x06inline\x12.\n\x03shm\x18\x04 \x01(\x0b2\x1a.smg.grpc.common.ShmHandleH\x00R\x03shm\x12=\n\x06remote\x18\x05 \x01(\x0b2#.smg.grpc.common.RemoteTens'
    b'orHandleH\x00R\x06remoteB\t\n\x07payload"B\n\x10PlaceholderRange\x12\x16\n\x06offset\x18\x01 \x01(\rR\x06offset\x12\x16\n\x06length\x18\x02 \x01(\rR\x06length"\xc2\x04'
    b'\n\x0eMultimodalItem\x125\n\x08modality\x18\x01 \x01(\x0e2\x19.smg.grpc.common.ModalityR\x08modality\x12!\n\x0ccontent_hash\x18\x02 \x01(\x0cR\x0bconte'
    b'ntHash\x12J\n\rencoder_input\x18\x03 \x01(\x0b2%.tokenspeed.grpc.scheduler.TensorDataR\x0cencoderInput\x12y\n\x16model_specific'
    b'_tensors\x18\x04 \x03(\x0b2C.tokenspeed.grpc.scheduler.MultimodalItem.ModelSpecificTensorsEntryR\x14modelSpecificTe'
    b'nsors\x12O\n\x0cplaceholders\x18\x05 \x03(\x0b2+.tokenspeed.grpc.scheduler.PlaceholderRangeR\x0cplaceholders\x125\n\x14placeholde'
    b'r_token_id\x18\x06 \x01(\rH\x00R\x12placeholderTokenId\x88\x01\x01\x1an\n\x19ModelSpecificTensorsEntry\x12\x10\n\x03key\x18\x01 \x01(\tR\x03key\x12;\n\x05value\x18\x02 '
    b'\x01(\x0b2%.tokenspeed.grpc.scheduler.TensorDataR\x05value:\x028\x01B\x17\n\x15_placeholder_token_id"S\n\x10MultimodalInputs\x12?'
    b'\n\x05items\x18\x01 \x03(\x0b2).tokenspeed.grpc.scheduler.MultimodalItemR\x05items"\xd0\x01\n\x10GenerateResponse\x12\x1d\n\nrequest_id\x18\x01'
    b' \x01(\tR\trequestId\x12F\n\x05chunk\x18\x02 \x01(\x0b2..tokenspeed.grpc.scheduler.GenerateStreamChunkH\x00R\x05chunk\x12I\n\x08complete\x18'
    b'\x03 \x01(\x0b2+.tokenspeed.grpc.scheduler.GenerateCompleteH\x00R\x08completeB\n\n\x08response"\xd2\x02\n\x13GenerateStreamChunk\x12\x1b'
    b'\n\ttoken_ids\x18\x01 \x03(\rR\x08tokenIds\x12#\n\rprompt_tokens\x18\x02 \x01(\rR\x0cpromptTokens\x12+\n\x11completion_tokens\x18\x03 \x01(\rR\x10complet'
    b'ionTokens\x12#\n\rcached_tokens\x18\x04 \x01(\rR\x0ccachedTokens\x12R\n\x0foutput_logprobs\x18\x05 \x01(\x0b2).tokenspeed.grpc.scheduler.'
    b'OutputLogProbsR\x0eoutputLogprobs\x12\x14\n\x05index\x18\x06 \x01(\rR\x05index\x12*\n\x0eweight_version\x18\x07 \x01(\tH\x00R\rweightVersion\x88\x01\x01B\x11\n\x0f'
    b'_weight_version"\xbc\x04\n\x10GenerateComplete\x12\x1d\n\noutput_ids\x18\x01 \x03(\rR\toutputIds\x12#\n\rfinish_reason\x18\x02 \x01(\tR\x0cfinishRe'
    b'ason\x12#\n\rprompt_tokens\x18\x03 \x01(\rR\x0cpromptTokens\x12+\n\x11completion_tokens\x18\x04 \x01(\rR\x10completionTokens\x12#\n\rcached_tok'
    b'ens\x18\x05 \x01(\rR\x0ccachedTokens\x12R\n\x0foutput_logprobs\x18\x06 \x01(\x0b2).tokenspeed.grpc.scheduler.OutputLogProbsR\x0eoutputL'
    b'ogprobs\x12*\n\x10matched_token_id\x18\x07 \x01(\rH\x00R\x0ematchedTokenId\x12*\n\x10matched_stop_str\x18\x08 \x01(\tH\x00R\x0ematchedStopStr\x12\x14\n\x05i'
    b'ndex\x18\t \x01(\rR\x05index\x120\n\x14spec_accepted_tokens\x18\n \x01(\rR\x12specAcceptedTokens\x12*\n\x11spec_draft_tokens\x18\x0b \x01(\rR\x0fspec'
    b'DraftTokens\x12*\n\x0eweight_version\x18\x0c \x01(\tH\x01R\rweightVersion\x88\x01\x01B\x0e\n\x0cmatched_stopB\x11\n\x0f_weight_version"\x9f\x01\n\x0eOutpu'
    b'tLogProbs\x12%\n\x0etoken_logprobs\x18\x01 \x03(\x02R\rtokenLogprobs\x12\x1b\n\ttoken_ids\x18\x02 \x03(\rR\x08tokenIds\x12I\n\x0ctop_logprobs\x18\x03 \x03(\x0b2'
    b'&.tokenspeed.grpc.scheduler.TopLogProbsR\x0btopLogprobs"B\n\x0bTopLogProbs\x12\x16\n\x06values\x18\x01 \x03(\x02R\x06values\x12\x1b\n\ttoken'
    b'_ids\x18\x02 \x03(\rR\x08tokenIds"\x14\n\x12HealthCheckRequest"I\n\x13HealthCheckResponse\x12\x18\n\x07healthy\x18\x01 \x01(\x08R\x07healthy\x12\x18\n\x07messa'
    b'ge\x18\x02 \x01(\tR\x07message"E\n\x0cAbortRequest\x12\x1d\n\nrequest_id\x18\x01 \x01(\tR\trequestId\x12\x16\n\x06reason\x18\x02 \x01(\tR\x06reason"C\n\rAbortRes'
    b'ponse\x12\x18\n\x07success\x18\x01 \x01(\x08R\x07success\x12\x18\n\x07message\x18\x02 \x01(\tR\x07message"\x15\n\x13GetModelInfoRequest"\x98\x06\n\x14GetModelInfoRes'
    b'ponse\x12\x1d\n\nmodel_path\x18\x01 \x01(\tR\tmodelPath\x12%\n\x0etokenizer_path\x18\x02 \x01(\tR\rtokenizerPath\x12*\n\x11served_model_name\x18\x03 \x01'
    b'(\tR\x0fservedModelName\x12\x1d\n\nmodel_type\x18\x04 \x01(\tR\tmodelType\x12$\n\rarchitectures\x18\x05 \x03(\tR\rarchitectures\x12,\n\x12max_cont'
    b'ext_length\x18\x06 \x01(\x05R\x10maxContextLength\x12)\n\x11max_req_input_len\x18\x07 \x01(\x05R\x0emaxReqInputLen\x12\x1d\n\nvocab_size\x18\x08 \x01(\x05R\tv'
    b'ocabSize\x12"\n\reos_token_ids\x18\t \x03(\x05R\x0beosTokenIds\x12 \n\x0cpad_token_id\x18\n \x01(\x05R\npadTokenId\x12 \n\x0cbos_token_id\x18\x0b \x01(\x05'
    b'R\nbosTokenId\x12%\n\x0eweight_version\x18\x0c \x01(\tR\rweightVersion\x12?\n\x1cdefault_sampling_params_json\x18\r \x01(\tR\x19defaultSa'
    b"mplingParamsJson\x12'\n\x0fsupports_vision\x18\x0e \x01(\x08R\x0esupportsVision\x12/\n\x13supports_multimodal\x18\x0f \x01(\x08R\x12supportsMult"
    b'imodal\x12L\n\x14supported_modalities\x18\x10 \x03(\x0e2\x19.smg.grpc.common.ModalityR\x13supportedModalities\x12\x1f\n\x0bmodel_dtype\x18'
    b'\x11 \x01(\tR\nmodelDtype\x128\n\x18multimodal_encoder_dtype\x18\x12 \x01(\tR\x16multimodalEncoderDtype"\x16\n\x14GetServerInfoRequest"'
    b'\xcc\x03\n\x15GetServerInfoResponse\x128\n\x0bserver_args\x18\x01 \x01(\x0b2\x17.google.protobuf.StructR\nserverArgs\x12>\n\x0escheduler_inf'
    b"o\x18\x02 \x01(\x0b2\x17.google.protobuf.StructR\rschedulerInfo\x12'\n\x0factive_requests\x18\x03 \x01(\x05R\x0eactiveRequests\x12\x1b\n\tis_pause"
    b'd\x18\x04 \x01(\x08R\x08isPaused\x12%\n\x0euptime_seconds\x18\x05 \x01(\x01R\ruptimeSeconds\x12/\n\x14max_total_num_tokens\x18\x06 \x01(\x05R\x11maxTotalNumT'
    b'okens\x12-\n\x12tokenspeed_version\x18\x07 \x01(\tR\x11tokenspeedVersion\x129\n\nstart_time\x18\x08 \x01(\x0b2\x1a.google.protobuf.Timestamp'
    b'R\tstartTime\x121\n\x14constrained_decoding\x18\t \x01(\tR\x13constrainedDecoding"U\n\x0fGetLoadsRequest\x12\x1c\n\x07dp_rank\x18\x01 \x01(\x05H\x00'
    b'R\x06dpRank\x88\x01\x01\x12\x18\n\x07include\x18\x02 \x03(\tR\x07includeB\n\n\x08_dp_rank"\xf9\x01\n\x10GetLoadsResponse\x12\x1c\n\ttimestamp\x18\x01 \x01(\tR\ttimestamp'
    b'\x12\x18\n\x07version\x18\x02 \x01(\tR\x07version\x12"\n\rdp_rank_count\x18\x03 \x01(\x05R\x0bdpRankCount\x12>\n\x05loads\x18\x04 \x03(\x0b2(.tokenspeed.grpc.sche'
    b'duler.SchedulerLoadR\x05loads\x12I\n\taggregate\x18\x05 \x01(\x0b2+.tokenspeed.grpc.scheduler.AggregateMetricsR\taggregat'
    b'e"\xe9\x05\n\rSchedulerLoad\x12\x17\n\x07dp_rank\x18\x01 \x01(\x05R\x06dpRank\x12(\n\x10num_running_reqs\x18\x02 \x01(\x05R\x0enumRunningReqs\x12(\n\x10num_waitin'
    b'g_reqs\x18\x03 \x01(\x05R\x0enumWaitingReqs\x12$\n\x0enum_total_reqs\x18\x04 \x01(\x05R\x0cnumTotalReqs\x12&\n\x0fnum_used_tokens\x18\x05 \x01(\x05R\rnumUsed'
    b'Tokens\x12/\n\x14max_total_num_tokens\x18\x06 \x01(\x05R\x11maxTotalNumTokens\x120\n\x14max_running_requests\x18\x07 \x01(\x05R\x12maxRunningReq'
    b'uests\x12=\n\x1bnum_waiting_uncached_tokens\x18\x0e \x01(\x05R\x18numWaitingUncachedTokens\x12\x1f\n\x0btoken_usage\x18\x08 \x01(\x01R\ntokenUsag'
    b'e\x121\n\x12active_token_usage\x18\x0f \x01(\x01H\x00R\x10activeTokenUsage\x88\x01\x01\x12%\n\x0egen_throughput\x18\t \x01(\x01R\rgenThroughput\x12$\n\x0ecache'
    b'_hit_rate\x18\n \x01(\x01R\x0ccacheHitRate\x12 \n\x0butilization\x18\x0b \x01(\x01R\x0butilization\x12E\n\x06memory\x18\x0c \x01(\x0b2(.tokenspeed.grpc.sc'
    b"heduler.MemoryMetricsH\x01R\x06memory\x88\x01\x01\x12D\n\x06queues\x18\r \x01(\x0b2'.tokenspeed.grpc.scheduler.QueueMetricsH\x02R\x06queue"
    b's\x88\x01\x01B\x15\n\x13_active_token_usageB\t\n\x07_memoryB\t\n\x07_queues"\x8e\x01\n\rMemoryMetrics\x12\x1b\n\tweight_gb\x18\x01 \x01(\x01R\x08weightGb\x12\x1e\n\x0b'
    b'kv_cache_gb\x18\x02 \x01(\x01R\tkvCacheGb\x12\x19\n\x08graph_gb\x18\x03 \x01(\x01R\x07graphGb\x12%\n\x0etoken_capacity\x18\x04 \x01(\x05R\rtokenCapacity"x\n\x0cQu'
    b'eueMetrics\x12\x18\n\x07waiting\x18\x01 \x01(\x05R\x07waiting\x12\x18\n\x07grammar\x18\x02 \x01(\x05R\x07grammar\x12\x16\n\x06paused\x18\x03 \x01(\x05R\x06paused\x12\x1c\n\tretracted\x18'
    b'\x04 \x01(\x05R\tretracted"\x85\x02\n\x10AggregateMetrics\x12,\n\x12total_running_reqs\x18\x01 \x01(\x05R\x10totalRunningReqs\x12,\n\x12total_waiting'
    b'_reqs\x18\x02 \x01(\x05R\x10totalWaitingReqs\x12\x1d\n\ntotal_reqs\x18\x03 \x01(\x05R\ttotalReqs\x12&\n\x0favg_token_usage\x18\x04 \x01(\x01R\ravgTokenUsage'
    b"\x12%\n\x0eavg_throughput\x18\x05 \x01(\x01R\ravgThroughput\x12'\n\x0favg_utilization\x18\x06 \x01(\x01R\x0eavgUtilization2\xd2\x08\n\x13TokenSpeedSched"
    b'uler\x12e\n\x08Generate\x12*.tokenspeed.grpc.scheduler.GenerateRequest\x1a+.tokenspeed.grpc.scheduler.GenerateRes'
    b'ponse0\x01\x12l\n\x0bHealthCheck\x12-.tokenspeed.grpc.scheduler.HealthCheckRequest\x1a..tokenspeed.grpc.scheduler.He'
    b"althCheckResponse\x12Z\n\x05Abort\x12'.tokenspeed.grpc.scheduler.AbortRequest\x1a(.tokenspeed.grpc.scheduler.Abor"
    b'tResponse\x12o\n\x0cGetModelInfo\x12..tokenspeed.grpc.scheduler.GetModelInfoRequest\x1a/.tokenspeed.grpc.schedule'
    b'r.GetModelInfoResponse\x12r\n\rGetServerInfo\x12/.tokenspeed.grpc.scheduler.GetServerInfoRequest\x1a0.tokenspee'
    b'd.grpc.scheduler.GetServerInfoResponse\x12c\n\x08GetLoads\x12*.tokenspeed.grpc.scheduler.GetLoadsRequest\x1a+.tok'
    b'enspeed.grpc.scheduler.GetLoadsResponse\x12U\n\nFlushCache\x12".smg.grpc.common.FlushCacheRequest\x1a#.smg.grpc'
    b'.common.FlushCacheResponse\x12V\n\x0cStartProfile\x12$.smg.grpc.common.StartProfileRequest\x1a .smg.grpc.common.P'
    b'rofileResponse\x12T\n\x0bStopProfile\x12#.smg.grpc.common.StopProfileRequest\x1a .smg.grpc.common.ProfileResponse'
    b'\x12Z\n\x0cGetTokenizer\x12$.smg.grpc.common.GetTokenizerRequest\x1a".smg.grpc.common.GetTokenizerChunk0\x01\x12_\n\x11Subs'
    b'cribeKvEvents\x12).smg.grpc.common.SubscribeKvEventsRequest\x1a\x1d.smg.grpc.common.KvEventBatch0\x01b\x06proto3'
)


def _message(name):
    return message_factory.GetMessageClass(_FILE.message_types_by_name[name])


DESCRIPTOR = _FILE
SamplingParams = _message("SamplingParams")
GenerateRequest = _message("GenerateRequest")
EncodeBootstrapInfo = _message("EncodeBootstrapInfo")
EncodeItemBootstrapInfo = _message("EncodeItemBootstrapInfo")
KvBootstrapInfo = _message("KvBootstrapInfo")
TokenizedInput = _message("TokenizedInput")
TensorData = _message("TensorData")
PlaceholderRange = _message("PlaceholderRange")
MultimodalItem = _message("MultimodalItem")
MultimodalInputs = _message("MultimodalInputs")
GenerateResponse = _message("GenerateResponse")
GenerateStreamChunk = _message("GenerateStreamChunk")
GenerateComplete = _message("GenerateComplete")
OutputLogProbs = _message("OutputLogProbs")
TopLogProbs = _message("TopLogProbs")
HealthCheckRequest = _message("HealthCheckRequest")
HealthCheckResponse = _message("HealthCheckResponse")
AbortRequest = _message("AbortRequest")
AbortResponse = _message("AbortResponse")
GetModelInfoRequest = _message("GetModelInfoRequest")
GetModelInfoResponse = _message("GetModelInfoResponse")
GetServerInfoRequest = _message("GetServerInfoRequest")
GetServerInfoResponse = _message("GetServerInfoResponse")
GetLoadsRequest = _message("GetLoadsRequest")
GetLoadsResponse = _message("GetLoadsResponse")
SchedulerLoad = _message("SchedulerLoad")
MemoryMetrics = _message("MemoryMetrics")
QueueMetrics = _message("QueueMetrics")
AggregateMetrics = _message("AggregateMetrics")
