# Made by tools/proto.py from smg-grpc-proto 0.4.28, sglang_scheduler.proto; do not edit.
"""The messages of SGLang's contract."""

from google.protobuf import message_factory

from smg_engine_contract.engines import common_pb2 as common_pb2
from smg_engine_contract.engines.pool import POOL

_FILE = POOL.AddSerializedFile(
    b'\n\x16sglang_scheduler.proto\x12\x15sglang.grpc.scheduler\x1a\x1fgoogle/protobuf/timestamp.proto\x1a\x1cgoogle/protobuf/st'
    b'ruct.proto\x1a\x0ccommon.proto"\x82\x08\n\x0eSamplingParams\x12 \n\x0btemperature\x18\x01 \x01(\x02R\x0btemperature\x12\x13\n\x05top_p\x18\x02 \x01(\x02R\x04topP\x12\x13'
    b'\n\x05top_k\x18\x03 \x01(\x05R\x04topK\x12\x13\n\x05min_p\x18\x04 \x01(\x02R\x04minP\x12+\n\x11frequency_penalty\x18\x05 \x01(\x02R\x10frequencyPenalty\x12)\n\x10presence_pe'
    b'nalty\x18\x06 \x01(\x02R\x0fpresencePenalty\x12-\n\x12repetition_penalty\x18\x07 \x01(\x02R\x11repetitionPenalty\x12)\n\x0emax_new_tokens\x18\x08 \x01(\rH'
    b'\x01R\x0cmaxNewTokens\x88\x01\x01\x12\x12\n\x04stop\x18\t \x03(\tR\x04stop\x12$\n\x0estop_token_ids\x18\n \x03(\rR\x0cstopTokenIds\x12.\n\x13skip_special_tokens\x18'
    b'\x0b \x01(\x08R\x11skipSpecialTokens\x12A\n\x1dspaces_between_special_tokens\x18\x0c \x01(\x08R\x1aspacesBetweenSpecialTokens\x12\x16\n\x05regex'
    b"\x18\r \x01(\tH\x00R\x05regex\x12!\n\x0bjson_schema\x18\x0e \x01(\tH\x00R\njsonSchema\x12#\n\x0cebnf_grammar\x18\x0f \x01(\tH\x00R\x0bebnfGrammar\x12'\n\x0estructura"
    b'l_tag\x18\x10 \x01(\tH\x00R\rstructuralTag\x12\x0c\n\x01n\x18\x11 \x01(\rR\x01n\x12$\n\x0emin_new_tokens\x18\x12 \x01(\rR\x0cminNewTokens\x12\x1d\n\nignore_eos\x18\x13 \x01(\x08'
    b'R\tignoreEos\x12 \n\x0cno_stop_trim\x18\x14 \x01(\x08R\nnoStopTrim\x12,\n\x0fstream_interval\x18\x15 \x01(\x05H\x02R\x0estreamInterval\x88\x01\x01\x12S\n\nlogit'
    b'_bias\x18\x16 \x03(\x0b24.sglang.grpc.scheduler.SamplingParams.LogitBiasEntryR\tlogitBias\x12<\n\rcustom_params\x18\x17 \x01(\x0b2'
    b'\x17.google.protobuf.StructR\x0ccustomParams\x1a<\n\x0eLogitBiasEntry\x12\x10\n\x03key\x18\x01 \x01(\tR\x03key\x12\x14\n\x05value\x18\x02 \x01(\x02R\x05value:\x028\x01'
    b'B\x0c\n\nconstraintB\x11\n\x0f_max_new_tokensB\x12\n\x10_stream_interval"\x8a\x01\n\x13DisaggregatedParams\x12%\n\x0ebootstrap_host\x18\x01 \x01('
    b'\tR\rbootstrapHost\x12%\n\x0ebootstrap_port\x18\x02 \x01(\x05R\rbootstrapPort\x12%\n\x0ebootstrap_room\x18\x03 \x01(\x05R\rbootstrapRoom"\xa1\x07\n\x0fG'
    b'enerateRequest\x12\x1d\n\nrequest_id\x18\x01 \x01(\tR\trequestId\x12C\n\ttokenized\x18\x02 \x01(\x0b2%.sglang.grpc.scheduler.TokenizedIn'
    b"putR\ttokenized\x12D\n\tmm_inputs\x18\x03 \x01(\x0b2'.sglang.grpc.scheduler.MultimodalInputsR\x08mmInputs\x12N\n\x0fsampling_par"
    b'ams\x18\x04 \x01(\x0b2%.sglang.grpc.scheduler.SamplingParamsR\x0esamplingParams\x12%\n\x0ereturn_logprob\x18\x05 \x01(\x08R\rreturnLogp'
    b'rob\x12*\n\x11logprob_start_len\x18\x06 \x01(\x05R\x0flogprobStartLen\x12(\n\x10top_logprobs_num\x18\x07 \x01(\x05R\x0etopLogprobsNum\x12*\n\x11token_i'
    b'ds_logprob\x18\x08 \x03(\rR\x0ftokenIdsLogprob\x120\n\x14return_hidden_states\x18\t \x01(\x08R\x12returnHiddenStates\x12]\n\x14disaggregated'
    b'_params\x18\n \x01(\x0b2*.sglang.grpc.scheduler.DisaggregatedParamsR\x13disaggregatedParams\x124\n\x16custom_logit_proce'
    b'ssor\x18\x0b \x01(\tR\x14customLogitProcessor\x128\n\ttimestamp\x18\x0c \x01(\x0b2\x1a.google.protobuf.TimestampR\ttimestamp\x12\x1f\n\x0blog_me'
    b'trics\x18\r \x01(\x08R\nlogMetrics\x12!\n\x0cinput_embeds\x18\x0e \x03(\x02R\x0binputEmbeds\x12\x17\n\x07lora_id\x18\x0f \x01(\tR\x06loraId\x121\n\x12data_parallel'
    b'_rank\x18\x10 \x01(\x05H\x00R\x10dataParallelRank\x88\x01\x01\x12\x16\n\x06stream\x18\x11 \x01(\x08R\x06stream\x12+\n\x11require_reasoning\x18\x12 \x01(\x08R\x10requireReason'
    b'ingB\x15\n\x13_data_parallel_rank"R\n\x0eTokenizedInput\x12#\n\roriginal_text\x18\x01 \x01(\tR\x0coriginalText\x12\x1b\n\tinput_ids\x18\x02 \x03(\r'
    b'R\x08inputIds"L\n\nTensorData\x12\x12\n\x04data\x18\x01 \x01(\x0cR\x04data\x12\x14\n\x05shape\x18\x02 \x03(\rR\x05shape\x12\x14\n\x05dtype\x18\x03 \x01(\tR\x05dtype"\x9e\x05\n\x10Multimo'
    b'dalInputs\x12\x1d\n\nimage_urls\x18\x01 \x03(\tR\timageUrls\x12\x1d\n\nvideo_urls\x18\x02 \x03(\tR\tvideoUrls\x12\x1d\n\naudio_urls\x18\x03 \x03(\tR\taudioUr'
    b'ls\x12D\n\x0cpixel_values\x18\x04 \x01(\x0b2!.sglang.grpc.scheduler.TensorDataR\x0bpixelValues\x12\x1d\n\nimage_data\x18\x05 \x03(\x0cR\timageD'
    b'ata\x12\x1d\n\nvideo_data\x18\x06 \x03(\x0cR\tvideoData\x12\x1d\n\naudio_data\x18\x07 \x03(\x0cR\taudioData\x12\x1e\n\nmodalities\x18\x08 \x03(\tR\nmodalities\x12w\n'
    b'\x16model_specific_tensors\x18\t \x03(\x0b2A.sglang.grpc.scheduler.MultimodalInputs.ModelSpecificTensorsEntryR\x14mo'
    b"delSpecificTensors\x12#\n\x0bim_token_id\x18\n \x01(\rH\x00R\timTokenId\x88\x01\x01\x12P\n\x0fmm_placeholders\x18\x0b \x03(\x0b2'.sglang.grpc.sched"
    b'uler.PlaceholderRangeR\x0emmPlaceholders\x1aj\n\x19ModelSpecificTensorsEntry\x12\x10\n\x03key\x18\x01 \x01(\tR\x03key\x127\n\x05value\x18\x02 \x01(\x0b2'
    b'!.sglang.grpc.scheduler.TensorDataR\x05value:\x028\x01B\x0e\n\x0c_im_token_id"B\n\x10PlaceholderRange\x12\x16\n\x06offset\x18\x01 \x01(\rR\x06o'
    b'ffset\x12\x16\n\x06length\x18\x02 \x01(\rR\x06length"\xce\x01\n\x10GenerateResponse\x12\x1d\n\nrequest_id\x18\x01 \x01(\tR\trequestId\x12B\n\x05chunk\x18\x02 \x01(\x0b2*.s'
    b"glang.grpc.scheduler.GenerateStreamChunkH\x00R\x05chunk\x12E\n\x08complete\x18\x03 \x01(\x0b2'.sglang.grpc.scheduler.Generate"
    b'CompleteH\x00R\x08completeB\n\n\x08responseJ\x04\x08\x04\x10\x05"\xac\x03\n\x13GenerateStreamChunk\x12\x1b\n\ttoken_ids\x18\x01 \x03(\rR\x08tokenIds\x12#\n\rpromp'
    b't_tokens\x18\x02 \x01(\rR\x0cpromptTokens\x12+\n\x11completion_tokens\x18\x03 \x01(\rR\x10completionTokens\x12#\n\rcached_tokens\x18\x04 \x01(\rR\x0cca'
    b'chedTokens\x12)\n\x10reasoning_tokens\x18\t \x01(\rR\x0freasoningTokens\x12N\n\x0foutput_logprobs\x18\x05 \x01(\x0b2%.sglang.grpc.schedul'
    b'er.OutputLogProbsR\x0eoutputLogprobs\x12#\n\rhidden_states\x18\x06 \x03(\x02R\x0chiddenStates\x12K\n\x0einput_logprobs\x18\x07 \x01(\x0b2$.sgl'
    b'ang.grpc.scheduler.InputLogProbsR\rinputLogprobs\x12\x14\n\x05index\x18\x08 \x01(\rR\x05index"\xc2\x05\n\x10GenerateComplete\x12\x1d\n\noutput'
    b'_ids\x18\x01 \x03(\rR\toutputIds\x12#\n\rfinish_reason\x18\x02 \x01(\tR\x0cfinishReason\x12#\n\rprompt_tokens\x18\x03 \x01(\rR\x0cpromptTokens\x12+\n\x11c'
    b'ompletion_tokens\x18\x04 \x01(\rR\x10completionTokens\x12#\n\rcached_tokens\x18\x05 \x01(\rR\x0ccachedTokens\x12)\n\x10reasoning_tokens\x18\x0c '
    b'\x01(\rR\x0freasoningTokens\x12N\n\x0foutput_logprobs\x18\x06 \x01(\x0b2%.sglang.grpc.scheduler.OutputLogProbsR\x0eoutputLogprobs'
    b'\x12O\n\x11all_hidden_states\x18\x07 \x03(\x0b2#.sglang.grpc.scheduler.HiddenStatesR\x0fallHiddenStates\x12*\n\x10matched_token_i'
    b'd\x18\x08 \x01(\rH\x00R\x0ematchedTokenId\x12*\n\x10matched_stop_str\x18\t \x01(\tH\x00R\x0ematchedStopStr\x12K\n\x0einput_logprobs\x18\n \x01(\x0b2$.sgla'
    b'ng.grpc.scheduler.InputLogProbsR\rinputLogprobs\x12\x14\n\x05index\x18\x0b \x01(\rR\x05index\x120\n\x14spec_accepted_tokens\x18\r \x01(\rR\x12'
    b'specAcceptedTokens\x12*\n\x11spec_draft_tokens\x18\x0e \x01(\rR\x0fspecDraftTokensB\x0e\n\x0cmatched_stop"\xed\x01\n\x0eOutputLogProbs\x12%\n'
    b'\x0etoken_logprobs\x18\x01 \x03(\x02R\rtokenLogprobs\x12\x1b\n\ttoken_ids\x18\x02 \x03(\rR\x08tokenIds\x12E\n\x0ctop_logprobs\x18\x03 \x03(\x0b2".sglang.grp'
    b'c.scheduler.TopLogProbsR\x0btopLogprobs\x12P\n\x12token_ids_logprobs\x18\x04 \x03(\x0b2".sglang.grpc.scheduler.TopLogProbs'
    b'R\x10tokenIdsLogprobs"\xc4\x01\n\rInputLogProbs\x12O\n\x0etoken_logprobs\x18\x01 \x03(\x0b2(.sglang.grpc.scheduler.InputTokenLogPr'
    b'obR\rtokenLogprobs\x12\x1b\n\ttoken_ids\x18\x02 \x03(\rR\x08tokenIds\x12E\n\x0ctop_logprobs\x18\x03 \x03(\x0b2".sglang.grpc.scheduler.TopLogP'
    b'robsR\x0btopLogprobs"8\n\x11InputTokenLogProb\x12\x19\n\x05value\x18\x01 \x01(\x02H\x00R\x05value\x88\x01\x01B\x08\n\x06_value"B\n\x0bTopLogProbs\x12\x16\n\x06values'
    b'\x18\x01 \x03(\x02R\x06values\x12\x1b\n\ttoken_ids\x18\x02 \x03(\rR\x08tokenIds"X\n\x0cHiddenStates\x12\x16\n\x06values\x18\x01 \x03(\x02R\x06values\x12\x14\n\x05layer\x18\x02 \x01(\x05R\x05'
    b'layer\x12\x1a\n\x08position\x18\x03 \x01(\x05R\x08position"\xa2\x03\n\x0cEmbedRequest\x12\x1d\n\nrequest_id\x18\x01 \x01(\tR\trequestId\x12C\n\ttokenized\x18\x02 \x01(\x0b'
    b"2%.sglang.grpc.scheduler.TokenizedInputR\ttokenized\x12D\n\tmm_inputs\x18\x04 \x01(\x0b2'.sglang.grpc.scheduler.Multim"
    b'odalInputsR\x08mmInputs\x12N\n\x0fsampling_params\x18\x05 \x01(\x0b2%.sglang.grpc.scheduler.SamplingParamsR\x0esamplingParams'
    b'\x12$\n\x0etoken_type_ids\x18\x07 \x03(\x05R\x0ctokenTypeIds\x12,\n\x12data_parallel_rank\x18\x08 \x01(\x05R\x10dataParallelRank\x12(\n\x10is_cross_enc'
    b'oder\x18\t \x01(\x08R\x0eisCrossEncoder\x12\x14\n\x05texts\x18\n \x03(\tR\x05textsJ\x04\x08\x06\x10\x07"\x89\x01\n\rEmbedResponse\x12#\n\rembedding_dim\x18\x04 \x01(\rR\x0cemb'
    b'eddingDim\x12\x1c\n\tembedding\x18\x05 \x03(\x02R\tembedding\x12#\n\rprompt_tokens\x18\x06 \x01(\rR\x0cpromptTokensJ\x04\x08\x01\x10\x02J\x04\x08\x02\x10\x03J\x04\x08\x03\x10\x04"\x14\n\x12He'
    b'althCheckRequest"I\n\x13HealthCheckResponse\x12\x18\n\x07healthy\x18\x01 \x01(\x08R\x07healthy\x12\x18\n\x07message\x18\x02 \x01(\tR\x07message"E\n\x0cAbort'
    b'Request\x12\x1d\n\nrequest_id\x18\x01 \x01(\tR\trequestId\x12\x16\n\x06reason\x18\x02 \x01(\tR\x06reason"C\n\rAbortResponse\x12\x18\n\x07success\x18\x01 \x01(\x08R\x07su'
    b'ccess\x12\x18\n\x07message\x18\x02 \x01(\tR\x07message"\x83\x01\n\x16LoadLoRAAdapterRequest\x12\x1b\n\tlora_name\x18\x01 \x01(\tR\x08loraName\x12\x1b\n\tlora_path'
    b'\x18\x02 \x01(\tR\x08loraPath\x12\x16\n\x06pinned\x18\x03 \x01(\x08R\x06pinned\x12\x17\n\x07lora_id\x18\x04 \x01(\tR\x06loraId"u\n\x17LoadLoRAAdapterResponse\x12\x18\n\x07succ'
    b'ess\x18\x01 \x01(\x08R\x07success\x12\x18\n\x07message\x18\x02 \x01(\tR\x07message\x12&\n\x0floaded_lora_ids\x18\x03 \x03(\tR\rloadedLoraIds"P\n\x18UnloadLoRAAd'
    b'apterRequest\x12\x1b\n\tlora_name\x18\x01 \x01(\tR\x08loraName\x12\x17\n\x07lora_id\x18\x02 \x01(\tR\x06loraId"w\n\x19UnloadLoRAAdapterResponse\x12\x18\n\x07s'
    b'uccess\x18\x01 \x01(\x08R\x07success\x12\x18\n\x07message\x18\x02 \x01(\tR\x07message\x12&\n\x0floaded_lora_ids\x18\x03 \x03(\tR\rloadedLoraIds"\x1f\n\x1dListLoade'
    b'dLoRAAdaptersRequest"~\n\x11LoadedLoRAAdapter\x12\x17\n\x07lora_id\x18\x01 \x01(\tR\x06loraId\x12\x1b\n\tlora_name\x18\x02 \x01(\tR\x08loraName\x12\x1b\n\tl'
    b'ora_path\x18\x03 \x01(\tR\x08loraPath\x12\x16\n\x06pinned\x18\x04 \x01(\x08R\x06pinned"s\n\x1eListLoadedLoRAAdaptersResponse\x12Q\n\x0floaded_adapter'
    b's\x18\x01 \x03(\x0b2(.sglang.grpc.scheduler.LoadedLoRAAdapterR\x0eloadedAdapters"\xa4\x01\n\x14UpdateWeightsRequest\x12\x1d\n\tdisk_p'
    b'ath\x18\x01 \x01(\tH\x00R\x08diskPath\x12!\n\x0btensor_data\x18\x02 \x01(\x0cH\x00R\ntensorData\x12\x1f\n\nremote_url\x18\x03 \x01(\tH\x00R\tremoteUrl\x12\x1f\n\x0bweight_'
    b'name\x18\x04 \x01(\tR\nweightNameB\x08\n\x06source"K\n\x15UpdateWeightsResponse\x12\x18\n\x07success\x18\x01 \x01(\x08R\x07success\x12\x18\n\x07message\x18\x02 \x01(\t'
    b'R\x07message"8\n\x17GetInternalStateRequest\x12\x1d\n\nstate_keys\x18\x01 \x03(\tR\tstateKeys"I\n\x18GetInternalStateResponse\x12-\n\x05s'
    b'tate\x18\x01 \x01(\x0b2\x17.google.protobuf.StructR\x05state"H\n\x17SetInternalStateRequest\x12-\n\x05state\x18\x01 \x01(\x0b2\x17.google.protob'
    b'uf.StructR\x05state"N\n\x18SetInternalStateResponse\x12\x18\n\x07success\x18\x01 \x01(\x08R\x07success\x12\x18\n\x07message\x18\x02 \x01(\tR\x07message"\x15\n\x13'
    b'GetModelInfoRequest"\xe3\x05\n\x14GetModelInfoResponse\x12\x1d\n\nmodel_path\x18\x01 \x01(\tR\tmodelPath\x12%\n\x0etokenizer_path\x18\x02 \x01(\tR'
    b'\rtokenizerPath\x12#\n\ris_generation\x18\x03 \x01(\x08R\x0cisGeneration\x12:\n\x19preferred_sampling_params\x18\x04 \x01(\tR\x17preferredSam'
    b'plingParams\x12%\n\x0eweight_version\x18\x05 \x01(\tR\rweightVersion\x12*\n\x11served_model_name\x18\x06 \x01(\tR\x0fservedModelName\x12,\n\x12ma'
    b"x_context_length\x18\x07 \x01(\x05R\x10maxContextLength\x12\x1d\n\nvocab_size\x18\x08 \x01(\x05R\tvocabSize\x12'\n\x0fsupports_vision\x18\t \x01(\x08R\x0esu"
    b'pportsVision\x12\x1d\n\nmodel_type\x18\n \x01(\tR\tmodelType\x12"\n\reos_token_ids\x18\x0b \x03(\x05R\x0beosTokenIds\x12 \n\x0cpad_token_id\x18\x0c \x01('
    b'\x05R\npadTokenId\x12 \n\x0cbos_token_id\x18\r \x01(\x05R\nbosTokenId\x12)\n\x11max_req_input_len\x18\x0e \x01(\x05R\x0emaxReqInputLen\x12$\n\rarchit'
    b'ectures\x18\x0f \x03(\tR\rarchitectures\x12#\n\rid2label_json\x18\x10 \x01(\tR\x0cid2labelJson\x12\x1d\n\nnum_labels\x18\x11 \x01(\x05R\tnumLabels\x12?\n\x1c'
    b'default_sampling_params_json\x18\x14 \x01(\tR\x19defaultSamplingParamsJson"\x16\n\x14GetServerInfoRequest"\xe8\x03\n\x15GetServerI'
    b'nfoResponse\x128\n\x0bserver_args\x18\x01 \x01(\x0b2\x17.google.protobuf.StructR\nserverArgs\x12>\n\x0escheduler_info\x18\x02 \x01(\x0b2\x17.goog'
    b"le.protobuf.StructR\rschedulerInfo\x12'\n\x0factive_requests\x18\x03 \x01(\x05R\x0eactiveRequests\x12\x1b\n\tis_paused\x18\x04 \x01(\x08R\x08isPau"
    b'sed\x124\n\x16last_receive_timestamp\x18\x05 \x01(\x01R\x14lastReceiveTimestamp\x12%\n\x0euptime_seconds\x18\x06 \x01(\x01R\ruptimeSeconds\x12%\n\x0e'
    b'sglang_version\x18\x07 \x01(\tR\rsglangVersion\x12\x1f\n\x0bserver_type\x18\x08 \x01(\tR\nserverType\x129\n\nstart_time\x18\t \x01(\x0b2\x1a.google.pr'
    b'otobuf.TimestampR\tstartTime\x12/\n\x14max_total_num_tokens\x18\n \x01(\x05R\x11maxTotalNumTokens"U\n\x0fGetLoadsRequest\x12\x1c\n\x07d'
    b'p_rank\x18\x01 \x01(\x05H\x00R\x06dpRank\x88\x01\x01\x12\x18\n\x07include\x18\x02 \x03(\tR\x07includeB\n\n\x08_dp_rank"\xf1\x01\n\x10GetLoadsResponse\x12\x1c\n\ttimestamp\x18\x01 '
    b'\x01(\tR\ttimestamp\x12\x18\n\x07version\x18\x02 \x01(\tR\x07version\x12"\n\rdp_rank_count\x18\x03 \x01(\x05R\x0bdpRankCount\x12:\n\x05loads\x18\x04 \x03(\x0b2$.sglang'
    b".grpc.scheduler.SchedulerLoadR\x05loads\x12E\n\taggregate\x18\x05 \x01(\x0b2'.sglang.grpc.scheduler.AggregateMetricsR\tag"
    b'gregate"\xad\x07\n\rSchedulerLoad\x12\x17\n\x07dp_rank\x18\x01 \x01(\x05R\x06dpRank\x12(\n\x10num_running_reqs\x18\x02 \x01(\x05R\x0enumRunningReqs\x12(\n\x10num_'
    b'waiting_reqs\x18\x03 \x01(\x05R\x0enumWaitingReqs\x12$\n\x0enum_total_reqs\x18\x04 \x01(\x05R\x0cnumTotalReqs\x12&\n\x0fnum_used_tokens\x18\x05 \x01(\x05R\rn'
    b'umUsedTokens\x12/\n\x14max_total_num_tokens\x18\x06 \x01(\x05R\x11maxTotalNumTokens\x12\x1f\n\x0btoken_usage\x18\x07 \x01(\x01R\ntokenUsage\x12%\n\x0ege'
    b'n_throughput\x18\x08 \x01(\x01R\rgenThroughput\x12$\n\x0ecache_hit_rate\x18\t \x01(\x01R\x0ccacheHitRate\x12 \n\x0butilization\x18\n \x01(\x01R\x0butiliz'
    b'ation\x120\n\x14max_running_requests\x18\x0b \x01(\x05R\x12maxRunningRequests\x12=\n\x1bnum_waiting_uncached_tokens\x18\x11 \x01(\x05R\x18numWai'
    b'tingUncachedTokens\x12A\n\x06memory\x18\x0c \x01(\x0b2$.sglang.grpc.scheduler.MemoryMetricsH\x00R\x06memory\x88\x01\x01\x12P\n\x0bspeculative'
    b'\x18\r \x01(\x0b2).sglang.grpc.scheduler.SpeculativeMetricsH\x01R\x0bspeculative\x88\x01\x01\x12;\n\x04lora\x18\x0e \x01(\x0b2".sglang.grpc.sche'
    b'duler.LoRAMetricsH\x02R\x04lora\x88\x01\x01\x12Y\n\x0edisaggregation\x18\x0f \x01(\x0b2,.sglang.grpc.scheduler.DisaggregationMetricsH\x03'
    b'R\x0edisaggregation\x88\x01\x01\x12@\n\x06queues\x18\x10 \x01(\x0b2#.sglang.grpc.scheduler.QueueMetricsH\x04R\x06queues\x88\x01\x01B\t\n\x07_memoryB\x0e\n\x0c'
    b'_speculativeB\x07\n\x05_loraB\x11\n\x0f_disaggregationB\t\n\x07_queues"\x8e\x01\n\rMemoryMetrics\x12\x1b\n\tweight_gb\x18\x01 \x01(\x01R\x08weightGb\x12\x1e'
    b'\n\x0bkv_cache_gb\x18\x02 \x01(\x01R\tkvCacheGb\x12\x19\n\x08graph_gb\x18\x03 \x01(\x01R\x07graphGb\x12%\n\x0etoken_capacity\x18\x04 \x01(\x05R\rtokenCapacity"Z\n\x12'
    b'SpeculativeMetrics\x12#\n\raccept_length\x18\x01 \x01(\x01R\x0cacceptLength\x12\x1f\n\x0baccept_rate\x18\x02 \x01(\x01R\nacceptRate"o\n\x0bLoRAMetr'
    b'ics\x12\x1d\n\nslots_used\x18\x01 \x01(\x05R\tslotsUsed\x12\x1f\n\x0bslots_total\x18\x02 \x01(\x05R\nslotsTotal\x12 \n\x0butilization\x18\x03 \x01(\x01R\x0butilizatio'
    b'n"\xcb\x03\n\x15DisaggregationMetrics\x12\x12\n\x04mode\x18\x01 \x01(\tR\x04mode\x12=\n\x1bprefill_prealloc_queue_reqs\x18\x02 \x01(\x05R\x18prefillPreallo'
    b'cQueueReqs\x12=\n\x1bprefill_inflight_queue_reqs\x18\x03 \x01(\x05R\x18prefillInflightQueueReqs\x12;\n\x1adecode_prealloc_queue_r'
    b'eqs\x18\x04 \x01(\x05R\x17decodePreallocQueueReqs\x12;\n\x1adecode_transfer_queue_reqs\x18\x05 \x01(\x05R\x17decodeTransferQueueReqs\x12=\n\x1bd'
    b'ecode_retracted_queue_reqs\x18\x06 \x01(\x05R\x18decodeRetractedQueueReqs\x122\n\x16kv_transfer_speed_gb_s\x18\x07 \x01(\x01R\x12kvTransf'
    b'erSpeedGbS\x123\n\x16kv_transfer_latency_ms\x18\x08 \x01(\x01R\x13kvTransferLatencyMs"x\n\x0cQueueMetrics\x12\x18\n\x07waiting\x18\x01 \x01(\x05R\x07wa'
    b'iting\x12\x18\n\x07grammar\x18\x02 \x01(\x05R\x07grammar\x12\x16\n\x06paused\x18\x03 \x01(\x05R\x06paused\x12\x1c\n\tretracted\x18\x04 \x01(\x05R\tretracted"\x85\x02\n\x10AggregateM'
    b'etrics\x12,\n\x12total_running_reqs\x18\x01 \x01(\x05R\x10totalRunningReqs\x12,\n\x12total_waiting_reqs\x18\x02 \x01(\x05R\x10totalWaitingReqs\x12\x1d'
    b'\n\ntotal_reqs\x18\x03 \x01(\x05R\ttotalReqs\x12&\n\x0favg_token_usage\x18\x04 \x01(\x01R\ravgTokenUsage\x12%\n\x0eavg_throughput\x18\x05 \x01(\x01R\ravgTh'
    b"roughput\x12'\n\x0favg_utilization\x18\x06 \x01(\x01R\x0eavgUtilization2\xe4\x0b\n\x0fSglangScheduler\x12]\n\x08Generate\x12&.sglang.grpc.sche"
    b"duler.GenerateRequest\x1a'.sglang.grpc.scheduler.GenerateResponse0\x01\x12R\n\x05Embed\x12#.sglang.grpc.scheduler.Em"
    b'bedRequest\x1a$.sglang.grpc.scheduler.EmbedResponse\x12d\n\x0bHealthCheck\x12).sglang.grpc.scheduler.HealthCheckR'
    b'equest\x1a*.sglang.grpc.scheduler.HealthCheckResponse\x12R\n\x05Abort\x12#.sglang.grpc.scheduler.AbortRequest\x1a$.s'
    b'glang.grpc.scheduler.AbortResponse\x12g\n\x0cGetModelInfo\x12*.sglang.grpc.scheduler.GetModelInfoRequest\x1a+.sgl'
    b'ang.grpc.scheduler.GetModelInfoResponse\x12j\n\rGetServerInfo\x12+.sglang.grpc.scheduler.GetServerInfoReques'
    b't\x1a,.sglang.grpc.scheduler.GetServerInfoResponse\x12[\n\x08GetLoads\x12&.sglang.grpc.scheduler.GetLoadsRequest\x1a'
    b'\'.sglang.grpc.scheduler.GetLoadsResponse\x12U\n\nFlushCache\x12".smg.grpc.common.FlushCacheRequest\x1a#.smg.grp'
    b'c.common.FlushCacheResponse\x12V\n\x0cStartProfile\x12$.smg.grpc.common.StartProfileRequest\x1a .smg.grpc.common.'
    b'ProfileResponse\x12T\n\x0bStopProfile\x12#.smg.grpc.common.StopProfileRequest\x1a .smg.grpc.common.ProfileRespons'
    b'e\x12Z\n\x0cGetTokenizer\x12$.smg.grpc.common.GetTokenizerRequest\x1a".smg.grpc.common.GetTokenizerChunk0\x01\x12_\n\x11Sub'
    b'scribeKvEvents\x12).smg.grpc.common.SubscribeKvEventsRequest\x1a\x1d.smg.grpc.common.KvEventBatch0\x01\x12p\n\x0fLoadLo'
    b'RAAdapter\x12-.sglang.grpc.scheduler.LoadLoRAAdapterRequest\x1a..sglang.grpc.scheduler.LoadLoRAAdapterResp'
    b'onse\x12v\n\x11UnloadLoRAAdapter\x12/.sglang.grpc.scheduler.UnloadLoRAAdapterRequest\x1a0.sglang.grpc.scheduler.U'
    b'nloadLoRAAdapterResponse\x12\x85\x01\n\x16ListLoadedLoRAAdapters\x124.sglang.grpc.scheduler.ListLoadedLoRAAdaptersRe'
    b'quest\x1a5.sglang.grpc.scheduler.ListLoadedLoRAAdaptersResponseb\x06proto3'
)


def _message(name):
    return message_factory.GetMessageClass(_FILE.message_types_by_name[name])


DESCRIPTOR = _FILE
SamplingParams = _message("SamplingParams")
DisaggregatedParams = _message("DisaggregatedParams")
GenerateRequest = _message("GenerateRequest")
TokenizedInput = _message("TokenizedInput")
TensorData = _message("TensorData")
MultimodalInputs = _message("MultimodalInputs")
PlaceholderRange = _message("PlaceholderRange")
GenerateResponse = _message("GenerateResponse")
GenerateStreamChunk = _message("GenerateStreamChunk")
GenerateComplete = _message("GenerateComplete")
OutputLogProbs = _message("OutputLogProbs")
InputLogProbs = _message("InputLogProbs")
InputTokenLogProb = _message("InputTokenLogProb")
TopLogProbs = _message("TopLogProbs")
HiddenStates = _message("HiddenStates")
EmbedRequest = _message("EmbedRequest")
EmbedResponse = _message("EmbedResponse")
HealthCheckRequest = _message("HealthCheckRequest")
HealthCheckResponse = _message("HealthCheckResponse")
AbortRequest = _message("AbortRequest")
AbortResponse = _message("AbortResponse")
LoadLoRAAdapterRequest = _message("LoadLoRAAdapterRequest")
LoadLoRAAdapterResponse = _message("LoadLoRAAdapterResponse")
UnloadLoRAAdapterRequest = _message("UnloadLoRAAdapterRequest")
UnloadLoRAAdapterResponse = _message("UnloadLoRAAdapterResponse")
ListLoadedLoRAAdaptersRequest = _message("ListLoadedLoRAAdaptersRequest")
LoadedLoRAAdapter = _message("LoadedLoRAAdapter")
ListLoadedLoRAAdaptersResponse = _message("ListLoadedLoRAAdaptersResponse")
UpdateWeightsRequest = _message("UpdateWeightsRequest")
UpdateWeightsResponse = _message("UpdateWeightsResponse")
GetInternalStateRequest = _message("GetInternalStateRequest")
GetInternalStateResponse = _message("GetInternalStateResponse")
SetInternalStateRequest = _message("SetInternalStateRequest")
SetInternalStateResponse = _message("SetInternalStateResponse")
GetModelInfoRequest = _message("GetModelInfoRequest")
GetModelInfoResponse = _message("GetModelInfoResponse")
GetServerInfoRequest = _message("GetServerInfoRequest")
GetServerInfoResponse = _message("GetServerInfoResponse")
GetLoadsRequest = _message("GetLoadsRequest")
GetLoadsResponse = _message("GetLoadsResponse")
SchedulerLoad = _message("SchedulerLoad")
MemoryMetrics = _message("MemoryMetrics")
SpeculativeMetrics = _message("SpeculativeMetrics")
LoRAMetrics = _message("LoRAMetrics")
DisaggregationMetrics = _message("DisaggregationMetrics")
QueueMetrics = _message("QueueMetrics")
AggregateMetrics = _message("AggregateMetrics")
