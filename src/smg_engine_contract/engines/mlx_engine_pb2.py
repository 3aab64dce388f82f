# Made by tools/proto.py from smg-grpc-proto 0.4.28, mlx_engine.proto; do not edit.
"""The messages of MLX's contract."""

from google.protobuf import message_factory

from smg_engine_contract.engines import common_pb2 as common_pb2
from smg_engine_contract.engines.pool import POOL

_FILE = POOL.AddSerializedFile(
    b'\n\x10mlx_engine.proto\x12\x0fmlx.grpc.engine\x1a\x0ccommon.proto"\xf2\x01\n\x0fGenerateRequest\x12\x1d\n\nrequest_id\x18\x01 \x01(\tR\trequestId'
    b'\x12?\n\ttokenized\x18\x02 \x01(\x0b2\x1f.mlx.grpc.engine.TokenizedInputH\x00R\ttokenized\x12\x14\n\x04text\x18\x03 \x01(\tH\x00R\x04text\x12H\n\x0fsampling_'
    b'params\x18\x04 \x01(\x0b2\x1f.mlx.grpc.engine.SamplingParamsR\x0esamplingParams\x12\x16\n\x06stream\x18\x05 \x01(\x08R\x06streamB\x07\n\x05input"R\n\x0eTo'
    b'kenizedInput\x12#\n\roriginal_text\x18\x01 \x01(\tR\x0coriginalText\x12\x1b\n\tinput_ids\x18\x02 \x03(\rR\x08inputIds"\xe2\x04\n\x0eSamplingParams\x12%\n'
    b'\x0btemperature\x18\x01 \x01(\x02H\x00R\x0btemperature\x88\x01\x01\x12\x13\n\x05top_p\x18\x02 \x01(\x02R\x04topP\x12\x13\n\x05top_k\x18\x03 \x01(\rR\x04topK\x12\x13\n\x05min_p\x18\x04 \x01(\x02R\x04minP\x12'
    b'-\n\x12repetition_penalty\x18\x05 \x01(\x02R\x11repetitionPenalty\x12+\n\x11frequency_penalty\x18\x06 \x01(\x02R\x10frequencyPenalty\x12)\n\x10prese'
    b'nce_penalty\x18\x07 \x01(\x02R\x0fpresencePenalty\x12M\n\nlogit_bias\x18\x08 \x03(\x0b2..mlx.grpc.engine.SamplingParams.LogitBiasEnt'
    b'ryR\tlogitBias\x12"\n\nmax_tokens\x18\t \x01(\rH\x01R\tmaxTokens\x88\x01\x01\x12$\n\x0estop_token_ids\x18\n \x03(\rR\x0cstopTokenIds\x12\x1d\n\nignore_eo'
    b's\x18\x0b \x01(\x08R\tignoreEos\x12\x1f\n\x08logprobs\x18\x0c \x01(\x05H\x02R\x08logprobs\x88\x01\x01\x12\x17\n\x04seed\x18\r \x01(\x05H\x03R\x04seed\x88\x01\x01\x1a<\n\x0eLogitBiasEntry\x12\x10\n\x03ke'
    b'y\x18\x01 \x01(\x05R\x03key\x12\x14\n\x05value\x18\x02 \x01(\x02R\x05value:\x028\x01B\x0e\n\x0c_temperatureB\r\n\x0b_max_tokensB\x0b\n\t_logprobsB\x07\n\x05_seed"\x9d\x01\n\x10Gene'
    b'rateResponse\x12<\n\x05chunk\x18\x01 \x01(\x0b2$.mlx.grpc.engine.GenerateStreamChunkH\x00R\x05chunk\x12?\n\x08complete\x18\x02 \x01(\x0b2!.mlx.g'
    b'rpc.engine.GenerateCompleteH\x00R\x08completeB\n\n\x08response"\x89\x02\n\x13GenerateStreamChunk\x12\x1b\n\ttoken_ids\x18\x01 \x03(\rR\x08toke'
    b'nIds\x12#\n\rprompt_tokens\x18\x02 \x01(\rR\x0cpromptTokens\x12+\n\x11completion_tokens\x18\x03 \x01(\rR\x10completionTokens\x12#\n\rcached_tok'
    b'ens\x18\x04 \x01(\rR\x0ccachedTokens\x12H\n\x0foutput_logprobs\x18\x05 \x01(\x0b2\x1f.mlx.grpc.engine.OutputLogProbsR\x0eoutputLogprobs\x12\x14\n'
    b'\x05index\x18\x06 \x01(\rR\x05index"\xff\x02\n\x10GenerateComplete\x12\x1d\n\noutput_ids\x18\x01 \x03(\rR\toutputIds\x12#\n\rfinish_reason\x18\x02 \x01(\tR\x0cfini'
    b'shReason\x12#\n\rprompt_tokens\x18\x03 \x01(\rR\x0cpromptTokens\x12+\n\x11completion_tokens\x18\x04 \x01(\rR\x10completionTokens\x12#\n\rcached'
    b'_tokens\x18\x05 \x01(\rR\x0ccachedTokens\x12H\n\x0foutput_logprobs\x18\x06 \x01(\x0b2\x1f.mlx.grpc.engine.OutputLogProbsR\x0eoutputLogprob'
    b's\x12\x14\n\x05index\x18\x07 \x01(\rR\x05index\x126\n\x15matched_stop_token_id\x18\x08 \x01(\rH\x00R\x12matchedStopTokenId\x88\x01\x01B\x18\n\x16_matched_stop_tok'
    b'en_id"\x95\x01\n\x0eOutputLogProbs\x12%\n\x0etoken_logprobs\x18\x01 \x03(\x02R\rtokenLogprobs\x12\x1b\n\ttoken_ids\x18\x02 \x03(\rR\x08tokenIds\x12?\n\x0ctop_'
    b'logprobs\x18\x03 \x03(\x0b2\x1c.mlx.grpc.engine.TopLogProbsR\x0btopLogprobs"B\n\x0bTopLogProbs\x12\x16\n\x06values\x18\x01 \x03(\x02R\x06values\x12\x1b\n\t'
    b'token_ids\x18\x02 \x03(\rR\x08tokenIds"\x14\n\x12HealthCheckRequest"I\n\x13HealthCheckResponse\x12\x18\n\x07healthy\x18\x01 \x01(\x08R\x07healthy\x12\x18\n\x07'
    b'message\x18\x02 \x01(\tR\x07message"/\n\x0cAbortRequest\x12\x1f\n\x0brequest_ids\x18\x01 \x03(\tR\nrequestIds"\x0f\n\rAbortResponse"\x15\n\x13GetModel'
    b'InfoRequest"\xab\x03\n\x14GetModelInfoResponse\x12\x1d\n\nmodel_path\x18\x01 \x01(\tR\tmodelPath\x12#\n\ris_generation\x18\x02 \x01(\x08R\x0cisGenera'
    b'tion\x12,\n\x12max_context_length\x18\x03 \x01(\rR\x10maxContextLength\x12\x1d\n\nvocab_size\x18\x04 \x01(\rR\tvocabSize\x12*\n\x11served_model_na'
    b'me\x18\x05 \x01(\tR\x0fservedModelName\x12\x1d\n\nmodel_type\x18\x06 \x01(\tR\tmodelType\x12$\n\rarchitectures\x18\x07 \x03(\tR\rarchitectures\x12"\n\reo'
    b's_token_ids\x18\x08 \x03(\rR\x0beosTokenIds\x12 \n\x0cpad_token_id\x18\t \x01(\rR\npadTokenId\x12 \n\x0cbos_token_id\x18\n \x01(\rR\nbosTokenId\x12)'
    b'\n\x11max_req_input_len\x18\x0b \x01(\rR\x0emaxReqInputLen"\x16\n\x14GetServerInfoRequest"\x88\x01\n\x15GetServerInfoResponse\x12\x1f\n\x0bserve'
    b"r_type\x18\x01 \x01(\tR\nserverType\x12'\n\x0factive_requests\x18\x02 \x01(\rR\x0eactiveRequests\x12%\n\x0euptime_seconds\x18\x03 \x01(\x01R\ruptimeSec"
    b'onds2\x99\x04\n\tMlxEngine\x12Q\n\x08Generate\x12 .mlx.grpc.engine.GenerateRequest\x1a!.mlx.grpc.engine.GenerateResponse0'
    b'\x01\x12X\n\x0bHealthCheck\x12#.mlx.grpc.engine.HealthCheckRequest\x1a$.mlx.grpc.engine.HealthCheckResponse\x12F\n\x05Abort'
    b'\x12\x1d.mlx.grpc.engine.AbortRequest\x1a\x1e.mlx.grpc.engine.AbortResponse\x12[\n\x0cGetModelInfo\x12$.mlx.grpc.engine.Ge'
    b'tModelInfoRequest\x1a%.mlx.grpc.engine.GetModelInfoResponse\x12^\n\rGetServerInfo\x12%.mlx.grpc.engine.GetServe'
    b'rInfoRequest\x1a&.mlx.grpc.engine.GetServerInfoResponse\x12Z\n\x0cGetTokenizer\x12$.smg.grpc.common.GetTokenizerR'
    b'equest\x1a".smg.grpc.common.GetTokenizerChunk0\x01b\x06proto3'
)


def _message(name):
    return message_factory.GetMessageClass(_FILE.message_types_by_name[name])


DESCRIPTOR = _FILE
GenerateRequest = _message("GenerateRequest")
TokenizedInput = _message("TokenizedInput")
SamplingParams = _message("SamplingParams")
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
