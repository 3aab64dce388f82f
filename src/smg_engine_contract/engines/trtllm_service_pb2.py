# Made by tools/proto.py from smg-grpc-proto 0.4.28, trtllm_service.proto; do not edit.
"""The messages of TensorRT-LLM's contract."""

from google.protobuf import message_factory

from smg_engine_contract.engines import common_pb2 as common_pb2
from smg_engine_contract.engines.pool import POOL

_FILE = POOL.AddSerializedFile(
    b'\n\x14trtllm_service.proto\x12\x06trtllm\x1a\x0ccommon.proto"\xcb\n\n\x0fGenerateRequest\x12\x1d\n\nrequest_id\x18\x01 \x01(\tR\trequestId\x124\n\tt'
    b'okenized\x18\x02 \x01(\x0b2\x16.trtllm.TokenizedInputR\ttokenized\x12?\n\x0fsampling_config\x18\x03 \x01(\x0b2\x16.trtllm.SamplingConfigR\x0e'
    b'samplingConfig\x129\n\routput_config\x18\x04 \x01(\x0b2\x14.trtllm.OutputConfigR\x0coutputConfig\x12\x1d\n\nmax_tokens\x18\x05 \x01(\rR\tmaxTo'
    b'kens\x12\x1c\n\tstreaming\x18\x06 \x01(\x08R\tstreaming\x12J\n\x0fguided_decoding\x18\x0b \x01(\x0b2\x1c.trtllm.GuidedDecodingParamsH\x00R\x0eguidedD'
    b'ecoding\x88\x01\x01\x12%\n\x0eembedding_bias\x18\x0c \x03(\x02R\rembeddingBias\x128\n\x0blora_config\x18\r \x01(\x0b2\x12.trtllm.LoraConfigH\x01R\nloraCo'
    b'nfig\x88\x01\x01\x12Q\n\x14prompt_tuning_config\x18\x0e \x01(\x0b2\x1a.trtllm.PromptTuningConfigH\x02R\x12promptTuningConfig\x88\x01\x01\x12G\n\x10multim'
    b'odal_input\x18\x0f \x01(\x0b2\x17.trtllm.MultimodalInputH\x03R\x0fmultimodalInput\x88\x01\x01\x12Q\n\x12kv_cache_retention\x18\x10 \x01(\x0b2\x1e.trtllm'
    b'.KvCacheRetentionConfigH\x04R\x10kvCacheRetention\x88\x01\x01\x12S\n\x14disaggregated_params\x18\x11 \x01(\x0b2\x1b.trtllm.DisaggregatedP'
    b'aramsH\x05R\x13disaggregatedParams\x88\x01\x01\x12G\n\x10lookahead_config\x18\x12 \x01(\x0b2\x17.trtllm.LookaheadConfigH\x06R\x0flookaheadConfi'
    b"g\x88\x01\x01\x12'\n\rcache_salt_id\x18\x13 \x01(\x03H\x07R\x0bcacheSaltId\x88\x01\x01\x12&\n\x0carrival_time\x18\x14 \x01(\x01H\x08R\x0barrivalTime\x88\x01\x01\x12\x12\n\x04stop\x18\x15 \x03(\tR"
    b'\x04stop\x12$\n\x0estop_token_ids\x18\x16 \x03(\rR\x0cstopTokenIds\x12\x1d\n\nignore_eos\x18\x17 \x01(\x08R\tignoreEos\x12\x10\n\x03bad\x18\x18 \x03(\tR\x03bad\x12"\n\rbad_'
    b'token_ids\x18\x19 \x03(\rR\x0bbadTokenIds\x12>\n\x1cinclude_stop_token_in_output\x18\x1a \x01(\x08R\x18includeStopTokenInOutputB\x12\n\x10_gui'
    b'ded_decodingB\x0e\n\x0c_lora_configB\x17\n\x15_prompt_tuning_configB\x13\n\x11_multimodal_inputB\x15\n\x13_kv_cache_retentionB\x17\n'
    b'\x15_disaggregated_paramsB\x13\n\x11_lookahead_configB\x10\n\x0e_cache_salt_idB\x0f\n\r_arrival_timeJ\x04\x08\x07\x10\x08J\x04\x08\x08\x10\tJ\x04\x08\t\x10\nJ\x04\x08\n'
    b'\x10\x0b"\x85\x01\n\x0eTokenizedInput\x12#\n\roriginal_text\x18\x01 \x01(\tR\x0coriginalText\x12&\n\x0finput_token_ids\x18\x02 \x03(\rR\rinputTokenIds\x12&'
    b'\n\x0fquery_token_ids\x18\x03 \x03(\rR\rqueryTokenIds"\xfd\x08\n\x0eSamplingConfig\x12\x1d\n\nbeam_width\x18\x01 \x01(\x05R\tbeamWidth\x120\n\x14num_retu'
    b'rn_sequences\x18\x02 \x01(\rR\x12numReturnSequences\x12\x18\n\x05top_k\x18\x03 \x01(\x05H\x00R\x04topK\x88\x01\x01\x12\x18\n\x05top_p\x18\x04 \x01(\x02H\x01R\x04topP\x88\x01\x01\x12\x1f\n\ttop_p_'
    b'min\x18\x05 \x01(\x02H\x02R\x07topPMin\x88\x01\x01\x12*\n\x0ftop_p_reset_ids\x18\x06 \x01(\x05H\x03R\x0ctopPResetIds\x88\x01\x01\x12#\n\x0btop_p_decay\x18\x07 \x01(\x02H\x04R\ttopPDeca'
    b'y\x88\x01\x01\x12\x17\n\x04seed\x18\x08 \x01(\x04H\x05R\x04seed\x88\x01\x01\x12%\n\x0btemperature\x18\t \x01(\x02H\x06R\x0btemperature\x88\x01\x01\x12"\n\nmin_tokens\x18\n \x01(\rH\x07R\tminToken'
    b's\x88\x01\x01\x12@\n\x1abeam_search_diversity_rate\x18\x0b \x01(\x02H\x08R\x17beamSearchDiversityRate\x88\x01\x01\x122\n\x12repetition_penalty\x18\x0c \x01(\x02H\t'
    b'R\x11repetitionPenalty\x88\x01\x01\x12.\n\x10presence_penalty\x18\r \x01(\x02H\nR\x0fpresencePenalty\x88\x01\x01\x120\n\x11frequency_penalty\x18\x0e \x01(\x02H\x0bR'
    b'\x10frequencyPenalty\x88\x01\x01\x125\n\x14prompt_ignore_length\x18\x0f \x01(\x05H\x0cR\x12promptIgnoreLength\x88\x01\x01\x12*\n\x0elength_penalty\x18\x10 \x01(\x02H'
    b'\rR\rlengthPenalty\x88\x01\x01\x12*\n\x0eearly_stopping\x18\x11 \x01(\x05H\x0eR\rearlyStopping\x88\x01\x01\x124\n\x14no_repeat_ngram_size\x18\x12 \x01(\x05H\x0fR\x11noR'
    b'epeatNgramSize\x88\x01\x01\x12\x18\n\x05min_p\x18\x13 \x01(\x02H\x10R\x04minP\x88\x01\x01\x12(\n\x10beam_width_array\x18\x14 \x03(\x05R\x0ebeamWidthArrayB\x08\n\x06_top_kB\x08\n\x06_'
    b'top_pB\x0c\n\n_top_p_minB\x12\n\x10_top_p_reset_idsB\x0e\n\x0c_top_p_decayB\x07\n\x05_seedB\x0e\n\x0c_temperatureB\r\n\x0b_min_tokensB\x1d\n\x1b_'
    b'beam_search_diversity_rateB\x15\n\x13_repetition_penaltyB\x13\n\x11_presence_penaltyB\x14\n\x12_frequency_penaltyB\x17\n\x15_pro'
    b'mpt_ignore_lengthB\x11\n\x0f_length_penaltyB\x11\n\x0f_early_stoppingB\x17\n\x15_no_repeat_ngram_sizeB\x08\n\x06_min_p"\x8b\x03\n\x0cOutpu'
    b'tConfig\x12\x1f\n\x08logprobs\x18\x01 \x01(\x05H\x00R\x08logprobs\x88\x01\x01\x12,\n\x0fprompt_logprobs\x18\x02 \x01(\x05H\x01R\x0epromptLogprobs\x88\x01\x01\x122\n\x15return_con'
    b'text_logits\x18\x03 \x01(\x08R\x13returnContextLogits\x128\n\x18return_generation_logits\x18\x04 \x01(\x08R\x16returnGenerationLogits\x129\n\x19'
    b'exclude_input_from_output\x18\x05 \x01(\x08R\x16excludeInputFromOutput\x122\n\x15return_encoder_output\x18\x06 \x01(\x08R\x13returnEncode'
    b'rOutput\x12.\n\x13return_perf_metrics\x18\x07 \x01(\x08R\x11returnPerfMetricsB\x0b\n\t_logprobsB\x12\n\x10_prompt_logprobs"\xa0\x02\n\x14GuidedD'
    b'ecodingParams\x12E\n\nguide_type\x18\x01 \x01(\x0e2&.trtllm.GuidedDecodingParams.GuideTypeR\tguideType\x12\x14\n\x05guide\x18\x02 \x01(\tR'
    b'\x05guide"\xaa\x01\n\tGuideType\x12\x1a\n\x16GUIDE_TYPE_UNSPECIFIED\x10\x00\x12\x13\n\x0fGUIDE_TYPE_JSON\x10\x01\x12\x1a\n\x16GUIDE_TYPE_JSON_SCHEMA\x10\x02\x12\x14\n'
    b'\x10GUIDE_TYPE_REGEX\x10\x03\x12\x1b\n\x17GUIDE_TYPE_EBNF_GRAMMAR\x10\x04\x12\x1d\n\x19GUIDE_TYPE_STRUCTURAL_TAG\x10\x05"\x86\x01\n\nLoraConfig\x12\x17\n\x07ta'
    b'sk_id\x18\x01 \x01(\x03R\x06taskId\x12\x1d\n\x07weights\x18\x02 \x01(\x0cH\x00R\x07weights\x88\x01\x01\x12$\n\x0bconfig_json\x18\x03 \x01(\tH\x01R\nconfigJson\x88\x01\x01B\n\n\x08_weights'
    b'B\x0e\n\x0c_config_json"=\n\x12PromptTuningConfig\x12\'\n\x0fembedding_table\x18\x01 \x01(\x0cR\x0eembeddingTable"0\n\x0fMultimodalInput\x12\x1d'
    b'\n\nimage_data\x18\x01 \x03(\x0cR\timageData"Q\n\x16KvCacheRetentionConfig\x12\x16\n\x06policy\x18\x01 \x01(\tR\x06policy\x12\x1f\n\x0bconfig_json\x18\x02 \x01(\t'
    b'R\nconfigJson"\xec\x02\n\x13DisaggregatedParams\x12J\n\x0crequest_type\x18\x01 \x01(\x0e2\'.trtllm.DisaggregatedParams.RequestTypeR'
    b'\x0brequestType\x12$\n\x0ectx_request_id\x18\x02 \x01(\tR\x0cctxRequestId\x12Q\n\x14context_phase_params\x18\x03 \x01(\x0b2\x1a.trtllm.ContextPha'
    b'seParamsH\x00R\x12contextPhaseParams\x88\x01\x01"w\n\x0bRequestType\x12\'\n#REQUEST_TYPE_CONTEXT_AND_GENERATION\x10\x00\x12\x1d\n\x19REQUEST'
    b'_TYPE_CONTEXT_ONLY\x10\x01\x12 \n\x1cREQUEST_TYPE_GENERATION_ONLY\x10\x02B\x17\n\x15_context_phase_params"i\n\x12ContextPhaseParam'
    b's\x12+\n\x12first_gen_token_id\x18\x01 \x01(\rR\x0ffirstGenTokenId\x12&\n\x0fkv_cache_blocks\x18\x02 \x01(\x0cR\rkvCacheBlocks"\x9a\x01\n\x0fLookahead'
    b'Config\x12&\n\x0fmax_window_size\x18\x01 \x01(\x05R\rmaxWindowSize\x12$\n\x0emax_ngram_size\x18\x02 \x01(\x05R\x0cmaxNgramSize\x129\n\x19max_verifica'
    b'tion_set_size\x18\x03 \x01(\x05R\x16maxVerificationSetSize"\xb0\x01\n\x10GenerateResponse\x12\x1d\n\nrequest_id\x18\x01 \x01(\tR\trequestId\x123\n\x05c'
    b'hunk\x18\x02 \x01(\x0b2\x1b.trtllm.GenerateStreamChunkH\x00R\x05chunk\x126\n\x08complete\x18\x03 \x01(\x0b2\x18.trtllm.GenerateCompleteH\x00R\x08comp'
    b'leteB\n\n\x08responseJ\x04\x08\x04\x10\x05"\x82\x02\n\x13GenerateStreamChunk\x12\x1b\n\ttoken_ids\x18\x01 \x03(\rR\x08tokenIds\x12%\n\x0esequence_index\x18\x02 \x01(\rR'
    b'\rsequenceIndex\x12#\n\rprompt_tokens\x18\x03 \x01(\rR\x0cpromptTokens\x12+\n\x11completion_tokens\x18\x04 \x01(\rR\x10completionTokens\x12#\n\r'
    b'cached_tokens\x18\x05 \x01(\rR\x0ccachedTokens\x120\n\x08logprobs\x18\x06 \x03(\x0b2\x14.trtllm.TokenLogprobR\x08logprobs"\x8b\x06\n\x10GenerateComp'
    b'lete\x12(\n\x10output_token_ids\x18\x01 \x03(\rR\x0eoutputTokenIds\x12%\n\x0esequence_index\x18\x02 \x01(\rR\rsequenceIndex\x12#\n\rfinish_reas'
    b'on\x18\x03 \x01(\tR\x0cfinishReason\x12*\n\x10matched_stop_str\x18\x04 \x01(\tH\x00R\x0ematchedStopStr\x12*\n\x10matched_token_id\x18\r \x01(\rH\x00R\x0ematc'
    b'hedTokenId\x12#\n\rprompt_tokens\x18\x05 \x01(\rR\x0cpromptTokens\x12+\n\x11completion_tokens\x18\x06 \x01(\rR\x10completionTokens\x12#\n\rcach'
    b'ed_tokens\x18\x07 \x01(\rR\x0ccachedTokens\x120\n\x08logprobs\x18\x08 \x03(\x0b2\x14.trtllm.TokenLogprobR\x08logprobs\x12=\n\x0fprompt_logprobs\x18\t'
    b' \x03(\x0b2\x14.trtllm.TokenLogprobR\x0epromptLogprobs\x12;\n\x0cperf_metrics\x18\n \x01(\x0b2\x13.trtllm.PerfMetricsH\x01R\x0bperfMetrics'
    b'\x88\x01\x01\x12*\n\x0econtext_logits\x18\x0b \x01(\x0cH\x02R\rcontextLogits\x88\x01\x01\x120\n\x11generation_logits\x18\x0c \x01(\x0cH\x03R\x10generationLogits\x88\x01\x01\x120\n'
    b'\x14spec_accepted_tokens\x18\x0e \x01(\rR\x12specAcceptedTokens\x12*\n\x11spec_draft_tokens\x18\x0f \x01(\rR\x0fspecDraftTokensB\x0e\n\x0cmatch'
    b'ed_stopB\x0f\n\r_perf_metricsB\x11\n\x0f_context_logitsB\x14\n\x12_generation_logits"z\n\x0cTokenLogprob\x12\x19\n\x08token_id\x18\x01 \x01(\rR'
    b'\x07tokenId\x12\x18\n\x07logprob\x18\x02 \x01(\x02R\x07logprob\x125\n\x0ctop_logprobs\x18\x03 \x03(\x0b2\x12.trtllm.TopLogprobR\x0btopLogprobs"A\n\nTopLogp'
    b'rob\x12\x19\n\x08token_id\x18\x01 \x01(\rR\x07tokenId\x12\x18\n\x07logprob\x18\x02 \x01(\x02R\x07logprob"\xc2\x02\n\x0bPerfMetrics\x12!\n\x0carrival_time\x18\x01 \x01(\x01R\x0barri'
    b'valTime\x120\n\x14first_scheduled_time\x18\x02 \x01(\x01R\x12firstScheduledTime\x12(\n\x10first_token_time\x18\x03 \x01(\x01R\x0efirstTokenTime\x12'
    b'&\n\x0flast_token_time\x18\x04 \x01(\x01R\rlastTokenTime\x125\n\x17kv_cache_transfer_start\x18\x05 \x01(\x01R\x14kvCacheTransferStart\x121\n\x15kv'
    b'_cache_transfer_end\x18\x06 \x01(\x01R\x12kvCacheTransferEnd\x12"\n\rkv_cache_size\x18\x07 \x01(\x03R\x0bkvCacheSize"c\n\x0cEmbedRequest\x12\x1d\n'
    b'\nrequest_id\x18\x01 \x01(\tR\trequestId\x124\n\ttokenized\x18\x02 \x01(\x0b2\x16.trtllm.TokenizedInputR\ttokenized"q\n\rEmbedResponse\x12'
    b'\x1d\n\nrequest_id\x18\x01 \x01(\tR\trequestId\x12\x1c\n\tembedding\x18\x02 \x03(\x02R\tembedding\x12#\n\rprompt_tokens\x18\x03 \x01(\rR\x0cpromptTokens"\x14\n'
    b'\x12HealthCheckRequest"-\n\x13HealthCheckResponse\x12\x16\n\x06status\x18\x01 \x01(\tR\x06status"-\n\x0cAbortRequest\x12\x1d\n\nrequest_id\x18\x01 \x01'
    b'(\tR\trequestId"C\n\rAbortResponse\x12\x18\n\x07success\x18\x01 \x01(\x08R\x07success\x12\x18\n\x07message\x18\x02 \x01(\tR\x07message"\x15\n\x13GetModelInfoRe'
    b'quest"\xc6\x02\n\x14GetModelInfoResponse\x12\x19\n\x08model_id\x18\x01 \x01(\tR\x07modelId\x12"\n\rmax_input_len\x18\x02 \x01(\x05R\x0bmaxInputLen\x12\x1e\n\x0bmax'
    b'_seq_len\x18\x03 \x01(\x05R\tmaxSeqLen\x12$\n\x0emax_batch_size\x18\x04 \x01(\x05R\x0cmaxBatchSize\x12\x1d\n\nvocab_size\x18\x05 \x01(\x05R\tvocabSize\x12\x1f\n\x0bhi'
    b'dden_size\x18\x06 \x01(\x05R\nhiddenSize\x12\x1d\n\nnum_layers\x18\x07 \x01(\x05R\tnumLayers\x12\x1b\n\tnum_heads\x18\x08 \x01(\x05R\x08numHeads\x12-\n\x12supported'
    b'_features\x18\t \x03(\tR\x11supportedFeatures"\x16\n\x14GetServerInfoRequest"\x86\x02\n\x15GetServerInfoResponse\x12\x18\n\x07version\x18\x01 \x01('
    b'\tR\x07version\x12\x18\n\x07backend\x18\x02 \x01(\tR\x07backend\x120\n\x14tensor_parallel_size\x18\x03 \x01(\x05R\x12tensorParallelSize\x124\n\x16pipeline_p'
    b'arallel_size\x18\x04 \x01(\x05R\x14pipelineParallelSize\x122\n\x15context_parallel_size\x18\x05 \x01(\x05R\x13contextParallelSize\x12\x1d\n\nworl'
    b'd_size\x18\x06 \x01(\x05R\tworldSize2\xda\x04\n\rTrtllmService\x12?\n\x08Generate\x12\x17.trtllm.GenerateRequest\x1a\x18.trtllm.GenerateResp'
    b'onse0\x01\x124\n\x05Embed\x12\x14.trtllm.EmbedRequest\x1a\x15.trtllm.EmbedResponse\x12F\n\x0bHealthCheck\x12\x1a.trtllm.HealthCheckRequ'
    b'est\x1a\x1b.trtllm.HealthCheckResponse\x124\n\x05Abort\x12\x14.trtllm.AbortRequest\x1a\x15.trtllm.AbortResponse\x12I\n\x0cGetModelIn'
    b'fo\x12\x1b.trtllm.GetModelInfoRequest\x1a\x1c.trtllm.GetModelInfoResponse\x12L\n\rGetServerInfo\x12\x1c.trtllm.GetServerInf'
    b'oRequest\x1a\x1d.trtllm.GetServerInfoResponse\x12Z\n\x0cGetTokenizer\x12$.smg.grpc.common.GetTokenizerRequest\x1a".smg.'
    b'grpc.common.GetTokenizerChunk0\x01\x12_\n\x11SubscribeKvEvents\x12).smg.grpc.common.SubscribeKvEventsRequest\x1a\x1d.sm'
    b'g.grpc.common.KvEventBatch0\x01b\x06proto3'
)


def _message(name):
    return message_factory.GetMessageClass(_FILE.message_types_by_name[name])


DESCRIPTOR = _FILE
GenerateRequest = _message("GenerateRequest")
TokenizedInput = _message("TokenizedInput")
SamplingConfig = _message("SamplingConfig")
OutputConfig = _message("OutputConfig")
GuidedDecodingParams = _message("GuidedDecodingParams")
LoraConfig = _message("LoraConfig")
PromptTuningConfig = _message("PromptTuningConfig")
MultimodalInput = _message("MultimodalInput")
KvCacheRetentionConfig = _message("KvCacheRetentionConfig")
DisaggregatedParams = _message("DisaggregatedParams")
ContextPhaseParams = _message("ContextPhaseParams")
LookaheadConfig = _message("LookaheadConfig")
GenerateResponse = _message("GenerateResponse")
GenerateStreamChunk = _message("GenerateStreamChunk")
GenerateComplete = _message("GenerateComplete")
TokenLogprob = _message("TokenLogprob")
TopLogprob = _message("TopLogprob")
PerfMetrics = _message("PerfMetrics")
EmbedRequest = _message("EmbedRequest")
EmbedResponse = _message("EmbedResponse")
HealthCheckRequest = _message("HealthCheckRequest")
HealthCheckResponse = _message("HealthCheckResponse")
AbortRequest = _message("AbortRequest")
AbortResponse = _message("AbortResponse")
GetModelInfoRequest = _message("GetModelInfoRequest")
GetModelInfoResponse = _message("GetModelInfoResponse")
GetServerInfoRequest = _message("GetServerInfoRequest")
GetServerInfoResponse = _message("GetServerInfoResponse")
