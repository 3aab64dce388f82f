# Made by tools/proto.py from proto/smg/engine/v1/engine.proto; do not edit.
"""The messages of the neutral engine contract, version 1."""

from google.protobuf import descriptor_pool, message_factory

_FILE = descriptor_pool.Default().AddSerializedFile(
    b'\n\x1asmg/engine/v1/engine.proto\x12\rsmg.engine.v1"\xc2\x03\n\x0fGenerateRequest\x12\x1d\n\nrequest_id\x18\x01 \x01(\tR\trequestId\x12\x1b\n\tin'
    b'put_ids\x18\x02 \x03(\rR\x08inputIds\x123\n\x08sampling\x18\x03 \x01(\x0b2\x17.smg.engine.v1.SamplingR\x08sampling\x129\n\nconstraint\x18\x04 \x01(\x0b2\x19.s'
    b'mg.engine.v1.ConstraintR\nconstraint\x121\n\x12data_parallel_rank\x18\x05 \x01(\rH\x00R\x10dataParallelRank\x88\x01\x01\x12"\n\ncache_salt'
    b'\x18\x06 \x01(\tH\x01R\tcacheSalt\x88\x01\x01\x12-\n\x10kv_transfer_json\x18\x07 \x01(\tH\x02R\x0ekvTransferJson\x88\x01\x01\x12\x16\n\x06stream\x18\x08 \x01(\x08R\x06stream\x12*\n\x05med'
    b'ia\x18\t \x03(\x0b2\x14.smg.engine.v1.MediaR\x05mediaB\x15\n\x13_data_parallel_rankB\r\n\x0b_cache_saltB\x13\n\x11_kv_transfer_json"\x81\x02\n'
    b'\x05Media\x12,\n\x04kind\x18\x01 \x01(\x0e2\x18.smg.engine.v1.MediaKindR\x04kind\x12\x12\n\x04hash\x18\x02 \x01(\x0cR\x04hash\x125\n\x0bplaceholder\x18\x03 \x01(\x0b2\x13.smg.'
    b'engine.v1.SpanR\x0bplaceholder\x123\n\nembeddings\x18\x04 \x03(\x0b2\x13.smg.engine.v1.SpanR\nembeddings\x12\x19\n\x08token_id\x18\x05 \x01(\rR\x07'
    b'tokenId\x12/\n\x07tensors\x18\x06 \x03(\x0b2\x15.smg.engine.v1.TensorR\x07tensors"6\n\x04Span\x12\x16\n\x06offset\x18\x01 \x01(\rR\x06offset\x12\x16\n\x06length\x18\x02'
    b' \x01(\rR\x06length"\\\n\x06Tensor\x12\x12\n\x04name\x18\x01 \x01(\tR\x04name\x12\x14\n\x05dtype\x18\x02 \x01(\tR\x05dtype\x12\x14\n\x05shape\x18\x03 \x03(\rR\x05shape\x12\x12\n\x04data\x18\x04 \x01(\x0c'
    b'R\x04data"\xe4\x07\n\x08Sampling\x12"\n\nmax_tokens\x18\x01 \x01(\rH\x00R\tmaxTokens\x88\x01\x01\x12"\n\nmin_tokens\x18\x02 \x01(\rH\x01R\tminTokens\x88\x01\x01\x12%\n\x0btempe'
    b'rature\x18\x03 \x01(\x02H\x02R\x0btemperature\x88\x01\x01\x12\x18\n\x05top_p\x18\x04 \x01(\x02H\x03R\x04topP\x88\x01\x01\x12\x18\n\x05top_k\x18\x05 \x01(\rH\x04R\x04topK\x88\x01\x01\x12\x18\n\x05min_p\x18\x06 \x01(\x02H\x05R'
    b'\x04minP\x88\x01\x01\x120\n\x11frequency_penalty\x18\x07 \x01(\x02H\x06R\x10frequencyPenalty\x88\x01\x01\x12.\n\x10presence_penalty\x18\x08 \x01(\x02H\x07R\x0fpresencePena'
    b'lty\x88\x01\x01\x122\n\x12repetition_penalty\x18\t \x01(\x02H\x08R\x11repetitionPenalty\x88\x01\x01\x12\x17\n\x04seed\x18\n \x01(\x03H\tR\x04seed\x88\x01\x01\x12\x12\n\x04stop\x18\x0b \x03(\tR\x04s'
    b'top\x12$\n\x0estop_token_ids\x18\x0c \x03(\rR\x0cstopTokenIds\x12\x1d\n\nignore_eos\x18\r \x01(\x08R\tignoreEos\x12\x11\n\x01n\x18\x0e \x01(\rH\nR\x01n\x88\x01\x01\x12\x1f\n\x08logpr'
    b'obs\x18\x0f \x01(\rH\x0bR\x08logprobs\x88\x01\x01\x12,\n\x0fprompt_logprobs\x18\x10 \x01(\rH\x0cR\x0epromptLogprobs\x88\x01\x01\x12E\n\nlogit_bias\x18\x11 \x03(\x0b2&.smg.eng'
    b'ine.v1.Sampling.LogitBiasEntryR\tlogitBias\x123\n\x13skip_special_tokens\x18\x12 \x01(\x08H\rR\x11skipSpecialTokens\x88\x01\x01\x12!\n\x0cin'
    b'clude_stop\x18\x13 \x01(\x08R\x0bincludeStop\x1a<\n\x0eLogitBiasEntry\x12\x10\n\x03key\x18\x01 \x01(\rR\x03key\x12\x14\n\x05value\x18\x02 \x01(\x02R\x05value:\x028\x01B\r\n\x0b_max_'
    b'tokensB\r\n\x0b_min_tokensB\x0e\n\x0c_temperatureB\x08\n\x06_top_pB\x08\n\x06_top_kB\x08\n\x06_min_pB\x14\n\x12_frequency_penaltyB\x13\n\x11_presen'
    b'ce_penaltyB\x15\n\x13_repetition_penaltyB\x07\n\x05_seedB\x04\n\x02_nB\x0b\n\t_logprobsB\x12\n\x10_prompt_logprobsB\x16\n\x14_skip_special_t'
    b'okens"\xe9\x01\n\nConstraint\x12!\n\x0bjson_schema\x18\x01 \x01(\tH\x00R\njsonSchema\x12!\n\x0bjson_object\x18\x02 \x01(\x08H\x00R\njsonObject\x12\x16\n\x05regex\x18'
    b"\x03 \x01(\tH\x00R\x05regex\x12\x1a\n\x07grammar\x18\x04 \x01(\tH\x00R\x07grammar\x12'\n\x0estructural_tag\x18\x05 \x01(\tH\x00R\rstructuralTag\x120\n\x06choice\x18\x06 \x01(\x0b2"
    b'\x16.smg.engine.v1.ChoicesH\x00R\x06choiceB\x06\n\x04kind"!\n\x07Choices\x12\x16\n\x06values\x18\x01 \x03(\tR\x06values"\xb4\x01\n\rGenerateEvent\x12/\n\x06to'
    b'kens\x18\x01 \x01(\x0b2\x15.smg.engine.v1.TokensH\x00R\x06tokens\x125\n\x08finished\x18\x02 \x01(\x0b2\x17.smg.engine.v1.FinishedH\x00R\x08finished\x122'
    b'\n\x07failure\x18\x03 \x01(\x0b2\x16.smg.engine.v1.FailureH\x00R\x07failureB\x07\n\x05event"\xf9\x01\n\x06Tokens\x12\x14\n\x05index\x18\x01 \x01(\rR\x05index\x12\x10\n\x03ids\x18'
    b'\x02 \x03(\rR\x03ids\x127\n\x08logprobs\x18\x03 \x03(\x0b2\x1b.smg.engine.v1.TokenLogprobR\x08logprobs\x12D\n\x0fprompt_logprobs\x18\x04 \x03(\x0b2\x1b.smg.e'
    b'ngine.v1.TokenLogprobR\x0epromptLogprobs\x12#\n\rprompt_tokens\x18\x05 \x01(\rR\x0cpromptTokens\x12#\n\rcached_tokens\x18\x06 \x01(\rR\x0cc'
    b'achedTokens"\x82\x01\n\x0cTokenLogprob\x12\x19\n\x08token_id\x18\x01 \x01(\rR\x07tokenId\x12\x1d\n\x07logprob\x18\x02 \x01(\x02H\x00R\x07logprob\x88\x01\x01\x12,\n\x03top\x18\x03 \x03(\x0b2'
    b'\x1a.smg.engine.v1.AlternativeR\x03topB\n\n\x08_logprob"B\n\x0bAlternative\x12\x19\n\x08token_id\x18\x01 \x01(\rR\x07tokenId\x12\x18\n\x07logprob\x18\x02 '
    b'\x01(\x02R\x07logprob"\xb1\x03\n\x08Finished\x12\x14\n\x05index\x18\x01 \x01(\rR\x05index\x123\n\x06reason\x18\x02 \x01(\x0e2\x1b.smg.engine.v1.FinishReasonR\x06reason'
    b'\x12#\n\x0cmatched_stop\x18\x03 \x01(\tH\x00R\x0bmatchedStop\x12*\n\x10matched_token_id\x18\x04 \x01(\rH\x00R\x0ematchedTokenId\x12#\n\rprompt_tokens\x18\x05'
    b' \x01(\rR\x0cpromptTokens\x12+\n\x11completion_tokens\x18\x06 \x01(\rR\x10completionTokens\x12#\n\rcached_tokens\x18\x07 \x01(\rR\x0ccachedTokens'
    b'\x12.\n\x10reasoning_tokens\x18\x08 \x01(\rH\x01R\x0freasoningTokens\x88\x01\x01\x12-\n\x10kv_transfer_json\x18\t \x01(\tH\x02R\x0ekvTransferJson\x88\x01\x01B\t\n\x07m'
    b'atchedB\x13\n\x11_reasoning_tokensB\x13\n\x11_kv_transfer_json"\xa2\x01\n\x07Failure\x12\x12\n\x04code\x18\x01 \x01(\rR\x04code\x12\x18\n\x07message\x18\x02 \x01(\tR\x07m'
    b'essage\x12\x1c\n\tretryable\x18\x03 \x01(\x08R\tretryable\x123\n\x13retry_after_seconds\x18\x04 \x01(\x01H\x00R\x11retryAfterSeconds\x88\x01\x01B\x16\n\x14_retry_'
    b'after_seconds"/\n\x0cAbortRequest\x12\x1f\n\x0brequest_ids\x18\x01 \x03(\tR\nrequestIds")\n\rAbortResponse\x12\x18\n\x07aborted\x18\x01 \x01(\rR\x07ab'
    b'orted"\x0f\n\rHealthRequest">\n\x0eHealthResponse\x12\x14\n\x05ready\x18\x01 \x01(\x08R\x05ready\x12\x16\n\x06reason\x18\x02 \x01(\tR\x06reason"\x11\n\x0fGetModelRe'
    b'quest"\xb2\x01\n\x10GetModelResponse\x12*\n\x05model\x18\x01 \x01(\x0b2\x14.smg.engine.v1.ModelR\x05model\x12?\n\x0ccapabilities\x18\x02 \x01(\x0b2\x1b.smg.e'
    b'ngine.v1.CapabilitiesR\x0ccapabilities\x121\n\x06engine\x18\x03 \x01(\x0b2\x19.smg.engine.v1.EngineInfoR\x06engine"\x94\x06\n\x05Model\x12\x12\n\x04'
    b'name\x18\x01 \x01(\tR\x04name\x12\x18\n\x07aliases\x18\x02 \x03(\tR\x07aliases\x12*\n\x0etokenizer_path\x18\x03 \x01(\tH\x00R\rtokenizerPath\x88\x01\x01\x12"\n\nmodel_type'
    b'\x18\x04 \x01(\tH\x01R\tmodelType\x88\x01\x01\x12$\n\rarchitectures\x18\x05 \x03(\tR\rarchitectures\x12*\n\x0econtext_length\x18\x06 \x01(\rH\x02R\rcontextLengt'
    b'h\x88\x01\x01\x12/\n\x11max_prompt_tokens\x18\x07 \x01(\rH\x03R\x0fmaxPromptTokens\x88\x01\x01\x12"\n\nvocab_size\x18\x08 \x01(\rH\x04R\tvocabSize\x88\x01\x01\x12"\n\reos_tok'
    b'en_ids\x18\t \x03(\rR\x0beosTokenIds\x12%\n\x0cbos_token_id\x18\n \x01(\rH\x05R\nbosTokenId\x88\x01\x01\x12%\n\x0cpad_token_id\x18\x0b \x01(\rH\x06R\npadTokenId'
    b'\x88\x01\x01\x127\n\x15default_sampling_json\x18\x0c \x01(\tH\x07R\x13defaultSamplingJson\x88\x01\x01\x12\x1c\n\tgenerates\x18\r \x01(\x08R\tgenerates\x12\x16\n\x06embeds'
    b'\x18\x0e \x01(\x08R\x06embeds\x12\x1f\n\x0bsees_images\x18\x0f \x01(\x08R\nseesImages\x12\x1e\n\nclassifies\x18\x10 \x01(\x08R\nclassifies\x12\x16\n\x06scores\x18\x11 \x01(\x08R\x06sco'
    b'res\x12\x16\n\x06labels\x18\x12 \x03(\tR\x06labelsB\x11\n\x0f_tokenizer_pathB\r\n\x0b_model_typeB\x11\n\x0f_context_lengthB\x14\n\x12_max_prompt_toke'
    b'nsB\r\n\x0b_vocab_sizeB\x0f\n\r_bos_token_idB\x0f\n\r_pad_token_idB\x18\n\x16_default_sampling_json"\xc0\x03\n\x0cCapabilities\x12+\n\x11co'
    b'ntract_revision\x18\x01 \x01(\rR\x10contractRevision\x12\x18\n\x05max_n\x18\x02 \x01(\rH\x00R\x04maxN\x88\x01\x01\x12\x19\n\x08greedy_n\x18\x03 \x01(\x08R\x07greedyN\x12&\n\x0cmax_'
    b"logprobs\x18\x04 \x01(\rH\x01R\x0bmaxLogprobs\x88\x01\x01\x12'\n\x0fprompt_logprobs\x18\x05 \x01(\x08R\x0epromptLogprobs\x12!\n\x0cstop_strings\x18\x06 \x01(\x08R\x0bsto"
    b'pStrings\x12 \n\x0bconstraints\x18\x07 \x03(\tR\x0bconstraints\x12\x14\n\x05loads\x18\x08 \x01(\x08R\x05loads\x12\x1b\n\tkv_events\x18\t \x01(\x08R\x08kvEvents\x12\x1b\n\tkv_'
    b'replay\x18\n \x01(\x08R\x08kvReplay\x12\x1d\n\ncache_salt\x18\x0b \x01(\x08R\tcacheSalt\x12.\n\x05media\x18\x0c \x03(\x0e2\x18.smg.engine.v1.MediaKindR\x05medi'
    b'aB\x08\n\x06_max_nB\x0f\n\r_max_logprobs"\x99\x02\n\nEngineInfo\x12\x12\n\x04name\x18\x01 \x01(\tR\x04name\x12\x18\n\x07version\x18\x02 \x01(\tR\x07version\x12\x1f\n\x0binstanc'
    b'e_id\x18\x03 \x01(\tR\ninstanceId\x12,\n\x12data_parallel_size\x18\x04 \x01(\rR\x10dataParallelSize\x12"\n\nblock_size\x18\x05 \x01(\rH\x00R\tblockSiz'
    b'e\x88\x01\x01\x12$\n\x0bmax_running\x18\x06 \x01(\rH\x01R\nmaxRunning\x88\x01\x01\x12%\n\x0euptime_seconds\x18\x07 \x01(\x01R\ruptimeSecondsB\r\n\x0b_block_sizeB\x0e\n\x0c'
    b'_max_running"\x11\n\x0fGetLoadsRequest"A\n\x10GetLoadsResponse\x12-\n\x05ranks\x18\x01 \x03(\x0b2\x17.smg.engine.v1.RankLoadR\x05ranks"\x9d'
    b'\x02\n\x08RankLoad\x12\x12\n\x04rank\x18\x01 \x01(\rR\x04rank\x12\x18\n\x07running\x18\x02 \x01(\rR\x07running\x12\x18\n\x07waiting\x18\x03 \x01(\rR\x07waiting\x12\x1f\n\x0bused_tokens\x18\x04'
    b' \x01(\x04R\nusedTokens\x12\x1d\n\nmax_tokens\x18\x05 \x01(\x04R\tmaxTokens\x12*\n\x11tokens_per_second\x18\x06 \x01(\x01R\x0ftokensPerSecond\x12)\n\x0ecache'
    b'_hit_rate\x18\x07 \x01(\x01H\x00R\x0ccacheHitRate\x88\x01\x01\x12\x1f\n\x0bmax_running\x18\x08 \x01(\rR\nmaxRunningB\x11\n\x0f_cache_hit_rate"N\n\x13GetTokeniz'
    b'erRequest\x12&\n\x0cknown_sha256\x18\x01 \x01(\tH\x00R\x0bknownSha256\x88\x01\x01B\x0f\n\r_known_sha256"]\n\x0eTokenizerChunk\x12\x12\n\x04data\x18\x01 \x01(\x0cR\x04'
    b'data\x12\x16\n\x06sha256\x18\x02 \x01(\tR\x06sha256\x12\x1f\n\x0btotal_bytes\x18\x03 \x01(\x04R\ntotalBytes"p\n\x0cEmbedRequest\x12\x1d\n\nrequest_id\x18\x01 \x01(\tR\tr'
    b'equestId\x12\x1b\n\tinput_ids\x18\x02 \x03(\rR\x08inputIds\x12$\n\x0etoken_type_ids\x18\x03 \x03(\rR\x0ctokenTypeIds"L\n\rEmbedResponse\x12\x16\n\x06valu'
    b'es\x18\x01 \x03(\x02R\x06values\x12#\n\rprompt_tokens\x18\x02 \x01(\rR\x0cpromptTokens"?\n\x18SubscribeKvEventsRequest\x12\x19\n\x05after\x18\x01 \x01(\x04H\x00R\x05'
    b'after\x88\x01\x01B\x08\n\x06_after"\x8c\x01\n\x0cKvEventBatch\x12\x1a\n\x08sequence\x18\x01 \x01(\x04R\x08sequence\x12\x1c\n\ttimestamp\x18\x02 \x01(\x01R\ttimestamp\x12\x12\n\x04ran'
    b'k\x18\x03 \x01(\rR\x04rank\x12.\n\x06events\x18\x04 \x03(\x0b2\x16.smg.engine.v1.KvEventR\x06events"\xbc\x01\n\x07KvEvent\x125\n\x06stored\x18\x01 \x01(\x0b2\x1b.smg.engi'
    b'ne.v1.BlocksStoredH\x00R\x06stored\x128\n\x07removed\x18\x02 \x01(\x0b2\x1c.smg.engine.v1.BlocksRemovedH\x00R\x07removed\x127\n\x07cleared\x18\x03 '
    b'\x01(\x0b2\x1b.smg.engine.v1.CacheClearedH\x00R\x07clearedB\x07\n\x05event"\xc2\x02\n\x0cBlocksStored\x12\x16\n\x06hashes\x18\x01 \x03(\x06R\x06hashes\x12\x1b\n\ttok'
    b"en_ids\x18\x02 \x03(\rR\x08tokenIds\x12\x1d\n\nblock_size\x18\x03 \x01(\rR\tblockSize\x12\x1b\n\x06parent\x18\x04 \x01(\x06H\x00R\x06parent\x88\x01\x01\x12'\n\x04tier\x18\x05 \x01(\x0e2\x13.s"
    b'mg.engine.v1.TierR\x04tier\x12/\n\x05media\x18\x06 \x03(\x0b2\x19.smg.engine.v1.BlockMediaR\x05media\x12"\n\ncache_salt\x18\x07 \x01(\tH\x01R\tcach'
    b'eSalt\x88\x01\x01\x12\x1d\n\x07adapter\x18\x08 \x01(\tH\x02R\x07adapter\x88\x01\x01B\t\n\x07_parentB\r\n\x0b_cache_saltB\n\n\x08_adapter"N\n\nBlockMedia\x12\x14\n\x05block'
    b'\x18\x01 \x01(\rR\x05block\x12\x12\n\x04hash\x18\x02 \x01(\x0cR\x04hash\x12\x16\n\x06offset\x18\x03 \x01(\x11R\x06offset"P\n\rBlocksRemoved\x12\x16\n\x06hashes\x18\x01 \x03(\x06R\x06hashes\x12\''
    b'\n\x04tier\x18\x02 \x01(\x0e2\x13.smg.engine.v1.TierR\x04tier"\x0e\n\x0cCacheCleared*i\n\tMediaKind\x12\x1a\n\x16MEDIA_KIND_UNSPECIFIED\x10\x00\x12\x14\n\x10'
    b'MEDIA_KIND_IMAGE\x10\x01\x12\x14\n\x10MEDIA_KIND_VIDEO\x10\x02\x12\x14\n\x10MEDIA_KIND_AUDIO\x10\x03*z\n\x0cFinishReason\x12\x1d\n\x19FINISH_REASON_UNSP'
    b'ECIFIED\x10\x00\x12\x16\n\x12FINISH_REASON_STOP\x10\x01\x12\x18\n\x14FINISH_REASON_LENGTH\x10\x02\x12\x19\n\x15FINISH_REASON_ABORTED\x10\x03*^\n\x04Tier\x12\x14\n\x10TI'
    b'ER_UNSPECIFIED\x10\x00\x12\x0f\n\x0bTIER_DEVICE\x10\x01\x12\r\n\tTIER_HOST\x10\x02\x12\r\n\tTIER_DISK\x10\x03\x12\x11\n\rTIER_EXTERNAL\x10\x042\xef\x04\n\x06Engine\x12J\n\x08Gen'
    b'erate\x12\x1e.smg.engine.v1.GenerateRequest\x1a\x1c.smg.engine.v1.GenerateEvent0\x01\x12B\n\x05Abort\x12\x1b.smg.engine.v1.Abort'
    b'Request\x1a\x1c.smg.engine.v1.AbortResponse\x12E\n\x06Health\x12\x1c.smg.engine.v1.HealthRequest\x1a\x1d.smg.engine.v1.Health'
    b'Response\x12K\n\x08GetModel\x12\x1e.smg.engine.v1.GetModelRequest\x1a\x1f.smg.engine.v1.GetModelResponse\x12K\n\x08GetLoads\x12\x1e.'
    b'smg.engine.v1.GetLoadsRequest\x1a\x1f.smg.engine.v1.GetLoadsResponse\x12S\n\x0cGetTokenizer\x12".smg.engine.v1.GetTo'
    b'kenizerRequest\x1a\x1d.smg.engine.v1.TokenizerChunk0\x01\x12B\n\x05Embed\x12\x1b.smg.engine.v1.EmbedRequest\x1a\x1c.smg.engine.v'
    b"1.EmbedResponse\x12[\n\x11SubscribeKvEvents\x12'.smg.engine.v1.SubscribeKvEventsRequest\x1a\x1b.smg.engine.v1.KvEven"
    b'tBatch0\x01b\x06proto3'
)


def _message(name):
    return message_factory.GetMessageClass(_FILE.message_types_by_name[name])


DESCRIPTOR = _FILE
GenerateRequest = _message("GenerateRequest")
Media = _message("Media")
Span = _message("Span")
Tensor = _message("Tensor")
Sampling = _message("Sampling")
Constraint = _message("Constraint")
Choices = _message("Choices")
GenerateEvent = _message("GenerateEvent")
Tokens = _message("Tokens")
TokenLogprob = _message("TokenLogprob")
Alternative = _message("Alternative")
Finished = _message("Finished")
Failure = _message("Failure")
AbortRequest = _message("AbortRequest")
AbortResponse = _message("AbortResponse")
HealthRequest = _message("HealthRequest")
HealthResponse = _message("HealthResponse")
GetModelRequest = _message("GetModelRequest")
GetModelResponse = _message("GetModelResponse")
Model = _message("Model")
Capabilities = _message("Capabilities")
EngineInfo = _message("EngineInfo")
GetLoadsRequest = _message("GetLoadsRequest")
GetLoadsResponse = _message("GetLoadsResponse")
RankLoad = _message("RankLoad")
GetTokenizerRequest = _message("GetTokenizerRequest")
TokenizerChunk = _message("TokenizerChunk")
EmbedRequest = _message("EmbedRequest")
EmbedResponse = _message("EmbedResponse")
SubscribeKvEventsRequest = _message("SubscribeKvEventsRequest")
KvEventBatch = _message("KvEventBatch")
KvEvent = _message("KvEvent")
BlocksStored = _message("BlocksStored")
BlockMedia = _message("BlockMedia")
BlocksRemoved = _message("BlocksRemoved")
CacheCleared = _message("CacheCleared")
MEDIA_KIND_UNSPECIFIED = 0
MEDIA_KIND_IMAGE = 1
MEDIA_KIND_VIDEO = 2
MEDIA_KIND_AUDIO = 3
FINISH_REASON_UNSPECIFIED = 0
FINISH_REASON_STOP = 1
FINISH_REASON_LENGTH = 2
FINISH_REASON_ABORTED = 3
TIER_UNSPECIFIED = 0
TIER_DEVICE = 1
TIER_HOST = 2
TIER_DISK = 3
TIER_EXTERNAL = 4
