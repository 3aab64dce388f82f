# Made by tools/proto.py from smg-grpc-proto 0.4.28, vllm_engine.proto; do not edit.
"""The messages of vLLM's contract."""

from google.protobuf import message_factory

from smg_engine_contract.engines import common_pb2 as common_pb2
from smg_engine_contract.engines.pool import POOL

_FILE = POOL.AddSerializedFile(
    b'\n\x11vllm_engine.proto\x12\x10vllm.grpc.engine\x1a\x0ccommon.proto"\x93\n\n\x0eSamplingParams\x12%\n\x0btemperature\x18\x01 \x01(\x02H\x01R\x0btempe'
    b'rature\x88\x01\x01\x12\x13\n\x05top_p\x18\x02 \x01(\x02R\x04topP\x12\x13\n\x05top_k\x18\x03 \x01(\rR\x04topK\x12\x13\n\x05min_p\x18\x04 \x01(\x02R\x04minP\x12+\n\x11frequency_penalty\x18\x05 \x01(\x02R'
    b'\x10frequencyPenalty\x12)\n\x10presence_penalty\x18\x06 \x01(\x02R\x0fpresencePenalty\x12-\n\x12repetition_penalty\x18\x07 \x01(\x02R\x11repetition'
    b'Penalty\x12"\n\nmax_tokens\x18\x08 \x01(\rH\x02R\tmaxTokens\x88\x01\x01\x12\x1d\n\nmin_tokens\x18\t \x01(\rR\tminTokens\x12\x12\n\x04stop\x18\n \x03(\tR\x04stop\x12$\n\x0est'
    b'op_token_ids\x18\x0b \x03(\rR\x0cstopTokenIds\x12.\n\x13skip_special_tokens\x18\x0c \x01(\x08R\x11skipSpecialTokens\x12A\n\x1dspaces_between_s'
    b'pecial_tokens\x18\r \x01(\x08R\x1aspacesBetweenSpecialTokens\x12\x1d\n\nignore_eos\x18\x0e \x01(\x08R\tignoreEos\x12\x0c\n\x01n\x18\x0f \x01(\rR\x01n\x12\x1f\n\x08logp'
    b'robs\x18\x16 \x01(\x05H\x03R\x08logprobs\x88\x01\x01\x12,\n\x0fprompt_logprobs\x18\x17 \x01(\x05H\x04R\x0epromptLogprobs\x88\x01\x01\x12\x17\n\x04seed\x18\x18 \x01(\x05H\x05R\x04seed\x88\x01\x01\x12:\n\x1a'
    b'include_stop_str_in_output\x18\x19 \x01(\x08R\x16includeStopStrInOutput\x12N\n\nlogit_bias\x18\x1a \x03(\x0b2/.vllm.grpc.engine.Samp'
    b'lingParams.LogitBiasEntryR\tlogitBias\x129\n\x16truncate_prompt_tokens\x18\x1b \x01(\x05H\x06R\x14truncatePromptTokens\x88\x01\x01\x127\n\x18g'
    b'rammar_from_first_token\x18\x1c \x01(\x08R\x15grammarFromFirstToken\x12!\n\x0bjson_schema\x18\x10 \x01(\tH\x00R\njsonSchema\x12\x16\n\x05regex\x18\x11 \x01'
    b"(\tH\x00R\x05regex\x12\x1a\n\x07grammar\x18\x12 \x01(\tH\x00R\x07grammar\x12'\n\x0estructural_tag\x18\x13 \x01(\tH\x00R\rstructuralTag\x12!\n\x0bjson_object\x18\x14 \x01("
    b'\x08H\x00R\njsonObject\x12<\n\x06choice\x18\x15 \x01(\x0b2".vllm.grpc.engine.ChoiceConstraintH\x00R\x06choice\x1a<\n\x0eLogitBiasEntry\x12\x10\n\x03k'
    b'ey\x18\x01 \x01(\x05R\x03key\x12\x14\n\x05value\x18\x02 \x01(\x02R\x05value:\x028\x01B\x0c\n\nconstraintB\x0e\n\x0c_temperatureB\r\n\x0b_max_tokensB\x0b\n\t_logprobsB\x12\n'
    b'\x10_prompt_logprobsB\x07\n\x05_seedB\x19\n\x17_truncate_prompt_tokens",\n\x10ChoiceConstraint\x12\x18\n\x07choices\x18\x01 \x03(\tR\x07choices"'
    b'R\n\x0eTokenizedInput\x12#\n\roriginal_text\x18\x01 \x01(\tR\x0coriginalText\x12\x1b\n\tinput_ids\x18\x02 \x03(\rR\x08inputIds"\xcc\x01\n\nTensorData\x12\x14'
    b'\n\x05shape\x18\x02 \x03(\rR\x05shape\x12\x14\n\x05dtype\x18\x03 \x01(\tR\x05dtype\x12\x18\n\x06inline\x18\x01 \x01(\x0cH\x00R\x06inline\x12.\n\x03shm\x18\x04 \x01(\x0b2\x1a.smg.grpc.common.'
    b'ShmHandleH\x00R\x03shm\x12=\n\x06remote\x18\x05 \x01(\x0b2#.smg.grpc.common.RemoteTensorHandleH\x00R\x06remoteB\t\n\x07payload"B\n\x10Placeh'
    b'olderRange\x12\x16\n\x06offset\x18\x01 \x01(\rR\x06offset\x12\x16\n\x06length\x18\x02 \x01(\rR\x06length"\xa9\x06\n\x10MultimodalInputs\x12?\n\x0cpixel_values\x18\x02 \x01('
    b'\x0b2\x1c.vllm.grpc.engine.TensorDataR\x0bpixelValues\x12r\n\x16model_specific_tensors\x18\x03 \x03(\x0b2<.vllm.grpc.engine.Mult'
    b'imodalInputs.ModelSpecificTensorsEntryR\x14modelSpecificTensors\x12#\n\x0bim_token_id\x18\x04 \x01(\rH\x00R\timTokenId\x88\x01\x01\x12K\n'
    b'\x0fmm_placeholders\x18\x05 \x03(\x0b2".vllm.grpc.engine.PlaceholderRangeR\x0emmPlaceholders\x12\x1b\n\tmm_hashes\x18\x06 \x03(\tR\x08mmHas'
    b'hes\x12!\n\x0cbatched_keys\x18\x07 \x03(\tR\x0bbatchedKeys\x12M\n\tflat_keys\x18\x08 \x03(\x0b20.vllm.grpc.engine.MultimodalInputs.FlatKe'
    b"ysEntryR\x08flatKeys\x12'\n\x10keep_on_cpu_keys\x18\t \x03(\tR\rkeepOnCpuKeys\x125\n\x08modality\x18\n \x01(\x0e2\x19.smg.grpc.common.Modal"
    b'ityR\x08modality\x12/\n\x11encoder_input_key\x18\x0b \x01(\tH\x01R\x0fencoderInputKey\x88\x01\x01\x1ae\n\x19ModelSpecificTensorsEntry\x12\x10\n\x03key\x18\x01'
    b' \x01(\tR\x03key\x122\n\x05value\x18\x02 \x01(\x0b2\x1c.vllm.grpc.engine.TensorDataR\x05value:\x028\x01\x1a;\n\rFlatKeysEntry\x12\x10\n\x03key\x18\x01 \x01(\tR\x03key'
    b'\x12\x14\n\x05value\x18\x02 \x01(\tR\x05value:\x028\x01B\x0e\n\x0c_im_token_idB\x14\n\x12_encoder_input_keyJ\x04\x08\x01\x10\x02"S\n\x08MediaRef\x125\n\x08modality\x18\x01 \x01(\x0e'
    b'2\x19.smg.grpc.common.ModalityR\x08modality\x12\x10\n\x03url\x18\x02 \x01(\tR\x03url"=\n\tMediaRefs\x120\n\x05items\x18\x01 \x03(\x0b2\x1a.vllm.grpc.engi'
    b'ne.MediaRefR\x05items"\xb1\x05\n\x0fGenerateRequest\x12\x1d\n\nrequest_id\x18\x01 \x01(\tR\trequestId\x12@\n\ttokenized\x18\x02 \x01(\x0b2 .vllm.grpc'
    b'.engine.TokenizedInputH\x00R\ttokenized\x12\x14\n\x04text\x18\x03 \x01(\tH\x00R\x04text\x12I\n\x0fsampling_params\x18\x04 \x01(\x0b2 .vllm.grpc.engin'
    b'e.SamplingParamsR\x0esamplingParams\x12\x16\n\x06stream\x18\x05 \x01(\x08R\x06stream\x12P\n\x12kv_transfer_params\x18\x06 \x01(\x0b2".vllm.grpc.eng'
    b'ine.KvTransferParamsR\x10kvTransferParams\x12?\n\tmm_inputs\x18\x07 \x01(\x0b2".vllm.grpc.engine.MultimodalInputsR\x08mmInp'
    b'uts\x12J\n\x0fextra_mm_inputs\x18\x0b \x03(\x0b2".vllm.grpc.engine.MultimodalInputsR\rextraMmInputs\x12:\n\x17kv_transfer_param'
    b's_json\x18\x08 \x01(\tH\x01R\x14kvTransferParamsJson\x88\x01\x01\x121\n\x12data_parallel_rank\x18\t \x01(\x05H\x02R\x10dataParallelRank\x88\x01\x01\x12:\n\nmedia_'
    b'refs\x18\n \x01(\x0b2\x1b.vllm.grpc.engine.MediaRefsR\tmediaRefsB\x07\n\x05inputB\x1a\n\x18_kv_transfer_params_jsonB\x15\n\x13_data_par'
    b'allel_rank"T\n\x10KvTransferParams\x12\x1f\n\x0bremote_host\x18\x01 \x01(\tR\nremoteHost\x12\x1f\n\x0bremote_port\x18\x02 \x01(\rR\nremotePort"\x96\x01\n'
    b'\x0eOutputLogProbs\x12%\n\x0etoken_logprobs\x18\x01 \x03(\x02R\rtokenLogprobs\x12\x1b\n\ttoken_ids\x18\x02 \x03(\rR\x08tokenIds\x12@\n\x0ctop_logprobs\x18'
    b'\x03 \x03(\x0b2\x1d.vllm.grpc.engine.TopLogProbsR\x0btopLogprobs"\xba\x01\n\rInputLogProbs\x12J\n\x0etoken_logprobs\x18\x01 \x03(\x0b2#.vllm.g'
    b'rpc.engine.InputTokenLogProbR\rtokenLogprobs\x12\x1b\n\ttoken_ids\x18\x02 \x03(\rR\x08tokenIds\x12@\n\x0ctop_logprobs\x18\x03 \x03(\x0b2\x1d.vll'
    b'm.grpc.engine.TopLogProbsR\x0btopLogprobs"8\n\x11InputTokenLogProb\x12\x19\n\x05value\x18\x01 \x01(\x02H\x00R\x05value\x88\x01\x01B\x08\n\x06_value"B\n\x0b'
    b'TopLogProbs\x12\x16\n\x06values\x18\x01 \x03(\x02R\x06values\x12\x1b\n\ttoken_ids\x18\x02 \x03(\rR\x08tokenIds"\x9f\x01\n\x10GenerateResponse\x12=\n\x05chunk\x18\x01 \x01(\x0b'
    b'2%.vllm.grpc.engine.GenerateStreamChunkH\x00R\x05chunk\x12@\n\x08complete\x18\x02 \x01(\x0b2".vllm.grpc.engine.GenerateComple'
    b'teH\x00R\x08completeB\n\n\x08response"\xd2\x02\n\x13GenerateStreamChunk\x12\x1b\n\ttoken_ids\x18\x01 \x03(\rR\x08tokenIds\x12#\n\rprompt_tokens\x18\x02 \x01'
    b'(\rR\x0cpromptTokens\x12+\n\x11completion_tokens\x18\x03 \x01(\rR\x10completionTokens\x12#\n\rcached_tokens\x18\x04 \x01(\rR\x0ccachedTokens\x12I'
    b'\n\x0foutput_logprobs\x18\x05 \x01(\x0b2 .vllm.grpc.engine.OutputLogProbsR\x0eoutputLogprobs\x12F\n\x0einput_logprobs\x18\x06 \x01(\x0b2\x1f.'
    b'vllm.grpc.engine.InputLogProbsR\rinputLogprobs\x12\x14\n\x05index\x18\x07 \x01(\rR\x05index"\xae\x06\n\x10GenerateComplete\x12\x1d\n\noutput_i'
    b'ds\x18\x01 \x03(\rR\toutputIds\x12#\n\rfinish_reason\x18\x02 \x01(\tR\x0cfinishReason\x12#\n\rprompt_tokens\x18\x03 \x01(\rR\x0cpromptTokens\x12+\n\x11com'
    b'pletion_tokens\x18\x04 \x01(\rR\x10completionTokens\x12#\n\rcached_tokens\x18\x05 \x01(\rR\x0ccachedTokens\x12I\n\x0foutput_logprobs\x18\x06 \x01(\x0b'
    b'2 .vllm.grpc.engine.OutputLogProbsR\x0eoutputLogprobs\x12F\n\x0einput_logprobs\x18\x07 \x01(\x0b2\x1f.vllm.grpc.engine.InputL'
    b'ogProbsR\rinputLogprobs\x12\x14\n\x05index\x18\x08 \x01(\rR\x05index\x12P\n\x12kv_transfer_params\x18\t \x01(\x0b2".vllm.grpc.engine.KvTransf'
    b'erParamsR\x10kvTransferParams\x12*\n\x10matched_token_id\x18\n \x01(\rH\x00R\x0ematchedTokenId\x12*\n\x10matched_stop_str\x18\x0b \x01(\tH\x00R\x0e'
    b'matchedStopStr\x12:\n\x17kv_transfer_params_json\x18\x0c \x01(\tH\x01R\x14kvTransferParamsJson\x88\x01\x01\x120\n\x14spec_accepted_tokens\x18\r'
    b' \x01(\rR\x12specAcceptedTokens\x12*\n\x11spec_draft_tokens\x18\x0e \x01(\rR\x0fspecDraftTokens\x12F\n\x0emedia_identity\x18\x0f \x01(\x0b2\x1f.vllm.'
    b'grpc.engine.MediaIdentityR\rmediaIdentityB\x0e\n\x0cmatched_stopB\x1a\n\x18_kv_transfer_params_json"\xc6\x01\n\rMediaIdenti'
    b'ty\x12(\n\x10prompt_token_ids\x18\x01 \x03(\rR\x0epromptTokenIds\x12?\n\tmm_inputs\x18\x02 \x01(\x0b2".vllm.grpc.engine.MultimodalInputsR'
    b'\x08mmInputs\x12J\n\x0fextra_mm_inputs\x18\x03 \x03(\x0b2".vllm.grpc.engine.MultimodalInputsR\rextraMmInputs"m\n\x0cEmbedReques'
    b't\x12\x1d\n\nrequest_id\x18\x01 \x01(\tR\trequestId\x12>\n\ttokenized\x18\x02 \x01(\x0b2 .vllm.grpc.engine.TokenizedInputR\ttokenized"w\n\r'
    b'EmbedResponse\x12\x1c\n\tembedding\x18\x01 \x03(\x02R\tembedding\x12#\n\rprompt_tokens\x18\x02 \x01(\rR\x0cpromptTokens\x12#\n\rembedding_dim\x18\x03 '
    b'\x01(\rR\x0cembeddingDim"\x14\n\x12HealthCheckRequest"I\n\x13HealthCheckResponse\x12\x18\n\x07healthy\x18\x01 \x01(\x08R\x07healthy\x12\x18\n\x07message\x18'
    b'\x02 \x01(\tR\x07message"/\n\x0cAbortRequest\x12\x1f\n\x0brequest_ids\x18\x01 \x03(\tR\nrequestIds"\x0f\n\rAbortResponse"\x15\n\x13GetModelInfoRequ'
    b'est"\xbc\x04\n\x14GetModelInfoResponse\x12\x1d\n\nmodel_path\x18\x01 \x01(\tR\tmodelPath\x12#\n\ris_generation\x18\x02 \x01(\x08R\x0cisGeneration\x12,\n\x12'
    b"max_context_length\x18\x03 \x01(\rR\x10maxContextLength\x12\x1d\n\nvocab_size\x18\x04 \x01(\rR\tvocabSize\x12'\n\x0fsupports_vision\x18\x05 \x01(\x08R\x0e"
    b'supportsVision\x12*\n\x11served_model_name\x18\x06 \x01(\tR\x0fservedModelName\x12%\n\x0etokenizer_path\x18\x07 \x01(\tR\rtokenizerPath\x12\x1d\n'
    b'\nmodel_type\x18\x08 \x01(\tR\tmodelType\x12$\n\rarchitectures\x18\t \x03(\tR\rarchitectures\x12"\n\reos_token_ids\x18\n \x03(\x05R\x0beosTokenI'
    b'ds\x12 \n\x0cpad_token_id\x18\x0b \x01(\x05R\npadTokenId\x12 \n\x0cbos_token_id\x18\x0c \x01(\x05R\nbosTokenId\x12)\n\x11max_req_input_len\x18\r \x01(\x05R\x0em'
    b'axReqInputLen\x12?\n\x1cdefault_sampling_params_json\x18\x0e \x01(\tR\x19defaultSamplingParamsJson"\x16\n\x14GetServerInfoReque'
    b'st"\xac\x08\n\x15GetServerInfoResponse\x12\'\n\x0factive_requests\x18\x01 \x01(\rR\x0eactiveRequests\x12\x1b\n\tis_paused\x18\x02 \x01(\x08R\x08isPaused\x124'
    b'\n\x16last_receive_timestamp\x18\x03 \x01(\x01R\x14lastReceiveTimestamp\x12%\n\x0euptime_seconds\x18\x04 \x01(\x01R\ruptimeSeconds\x12\x1f\n\x0bserve'
    b'r_type\x18\x05 \x01(\tR\nserverType\x12!\n\x0ckv_connector\x18\x06 \x01(\tR\x0bkvConnector\x12\x17\n\x07kv_role\x18\x07 \x01(\tR\x06kvRole\x12 \n\x0ckv_engine_id'
    b'\x18\x08 \x01(\tR\nkvEngineId\x12,\n\x12data_parallel_size\x18\t \x01(\x05R\x10dataParallelSize\x12(\n\x10shm_namespace_id\x18\n \x01(\tR\x0eshmNames'
    b'paceId\x12$\n\x0ekv_cache_dtype\x18\x0b \x01(\tR\x0ckvCacheDtype\x12\x1d\n\nblock_size\x18\x0c \x01(\x05R\tblockSize\x12+\n\x11attention_backend\x18\r \x01'
    b'(\tR\x10attentionBackend\x12\x1f\n\x0bmodel_dtype\x18\x0e \x01(\tR\nmodelDtype\x12)\n\x10pairing_protocol\x18\x0f \x01(\tR\x0fpairingProtocol\x12!\n\x0c'
    b'mm_processor\x18\x10 \x01(\tR\x0bmmProcessor\x12/\n\x14mm_media_ref_schemes\x18\x11 \x01(\tR\x11mmMediaRefSchemes\x12.\n\x13mm_processor_sou'
    b'rce\x18\x12 \x01(\tR\x11mmProcessorSource\x123\n\x16mm_device_do_normalize\x18\x13 \x01(\x08R\x13mmDeviceDoNormalize\x12 \n\x0cmax_num_seqs\x18\x14 '
    b'\x01(\x05R\nmaxNumSeqs\x12$\n\x0emm_item_limits\x18\x15 \x01(\tR\x0cmmItemLimits\x128\n\x18multimodal_encoder_dtype\x18\x16 \x01(\tR\x16multimodalE'
    b'ncoderDtype\x126\n\x17engine_reasoning_parser\x18\x17 \x01(\tR\x15engineReasoningParser\x12<\n\x1aconstrained_decoding_start\x18\x18 '
    b'\x01(\tR\x18constrainedDecodingStart\x12*\n\x11mm_encoder_budget\x18\x19 \x01(\x05R\x0fmmEncoderBudget"U\n\x0fGetLoadsRequest\x12\x1c\n\x07dp_r'
    b'ank\x18\x01 \x01(\x05H\x00R\x06dpRank\x88\x01\x01\x12\x18\n\x07include\x18\x02 \x03(\tR\x07includeB\n\n\x08_dp_rank"\xa5\x01\n\x10GetLoadsResponse\x12\x1c\n\ttimestamp\x18\x01 \x01(\t'
    b'R\ttimestamp\x12\x18\n\x07version\x18\x02 \x01(\tR\x07version\x12"\n\rdp_rank_count\x18\x03 \x01(\x05R\x0bdpRankCount\x125\n\x05loads\x18\x04 \x03(\x0b2\x1f.vllm.grpc'
    b'.engine.SchedulerLoadR\x05loads"\xfc\x03\n\rSchedulerLoad\x12\x17\n\x07dp_rank\x18\x01 \x01(\x05R\x06dpRank\x12(\n\x10num_running_reqs\x18\x02 \x01(\x05R\x0en'
    b'umRunningReqs\x12(\n\x10num_waiting_reqs\x18\x03 \x01(\x05R\x0enumWaitingReqs\x12$\n\x0enum_total_reqs\x18\x04 \x01(\x05R\x0cnumTotalReqs\x12&\n\x0fnum'
    b'_used_tokens\x18\x05 \x01(\x05R\rnumUsedTokens\x12/\n\x14max_total_num_tokens\x18\x06 \x01(\x05R\x11maxTotalNumTokens\x12\x1f\n\x0btoken_usage\x18\x07 '
    b'\x01(\x01R\ntokenUsage\x12%\n\x0egen_throughput\x18\x08 \x01(\x01R\rgenThroughput\x12$\n\x0ecache_hit_rate\x18\t \x01(\x01R\x0ccacheHitRate\x12 \n\x0butil'
    b'ization\x18\n \x01(\x01R\x0butilization\x120\n\x14max_running_requests\x18\x0b \x01(\x05R\x12maxRunningRequests\x12=\n\x1bnum_waiting_uncached'
    b'_tokens\x18\x0c \x01(\x05R\x18numWaitingUncachedTokens2\xa7\x08\n\nVllmEngine\x12S\n\x08Generate\x12!.vllm.grpc.engine.GenerateReques'
    b't\x1a".vllm.grpc.engine.GenerateResponse0\x01\x12H\n\x05Embed\x12\x1e.vllm.grpc.engine.EmbedRequest\x1a\x1f.vllm.grpc.engine.'
    b'EmbedResponse\x12Z\n\x0bHealthCheck\x12$.vllm.grpc.engine.HealthCheckRequest\x1a%.vllm.grpc.engine.HealthCheckRes'
    b'ponse\x12U\n\nFlushCache\x12".smg.grpc.common.FlushCacheRequest\x1a#.smg.grpc.common.FlushCacheResponse\x12V\n\x0cStar'
    b'tProfile\x12$.smg.grpc.common.StartProfileRequest\x1a .smg.grpc.common.ProfileResponse\x12T\n\x0bStopProfile\x12#.sm'
    b'g.grpc.common.StopProfileRequest\x1a .smg.grpc.common.ProfileResponse\x12H\n\x05Abort\x12\x1e.vllm.grpc.engine.Abort'
    b'Request\x1a\x1f.vllm.grpc.engine.AbortResponse\x12]\n\x0cGetModelInfo\x12%.vllm.grpc.engine.GetModelInfoRequest\x1a&.vl'
    b"lm.grpc.engine.GetModelInfoResponse\x12`\n\rGetServerInfo\x12&.vllm.grpc.engine.GetServerInfoRequest\x1a'.vllm."
    b'grpc.engine.GetServerInfoResponse\x12Q\n\x08GetLoads\x12!.vllm.grpc.engine.GetLoadsRequest\x1a".vllm.grpc.engine.'
    b'GetLoadsResponse\x12Z\n\x0cGetTokenizer\x12$.smg.grpc.common.GetTokenizerRequest\x1a".smg.grpc.common.GetTokenize'
    b'rChunk0\x01\x12_\n\x11SubscribeKvEvents\x12).smg.grpc.common.SubscribeKvEventsRequest\x1a\x1d.smg.grpc.common.KvEventBa'
    b'tch0\x01b\x06proto3'
)


def _message(name):
    return message_factory.GetMessageClass(_FILE.message_types_by_name[name])


DESCRIPTOR = _FILE
SamplingParams = _message("SamplingParams")
ChoiceConstraint = _message("ChoiceConstraint")
TokenizedInput = _message("TokenizedInput")
TensorData = _message("TensorData")
PlaceholderRange = _message("PlaceholderRange")
MultimodalInputs = _message("MultimodalInputs")
MediaRef = _message("MediaRef")
MediaRefs = _message("MediaRefs")
GenerateRequest = _message("GenerateRequest")
KvTransferParams = _message("KvTransferParams")
OutputLogProbs = _message("OutputLogProbs")
InputLogProbs = _message("InputLogProbs")
InputTokenLogProb = _message("InputTokenLogProb")
TopLogProbs = _message("TopLogProbs")
GenerateResponse = _message("GenerateResponse")
GenerateStreamChunk = _message("GenerateStreamChunk")
GenerateComplete = _message("GenerateComplete")
MediaIdentity = _message("MediaIdentity")
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
GetLoadsRequest = _message("GetLoadsRequest")
GetLoadsResponse = _message("GetLoadsResponse")
SchedulerLoad = _message("SchedulerLoad")
