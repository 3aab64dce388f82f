"""One plain call per family: reasoning where there is some, text around, two arguments of different types."""

from __future__ import annotations

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city"],
        },
    },
}
ARGUMENTS = {"city": "Paris", "days": 2}

JSON_ARGUMENTS = '{"city": "Paris", "days": 2}'
NAMED = '{"name": "get_weather", "arguments": {"city": "Paris", "days": 2}}'
PARAMETERS = '{"name": "get_weather", "parameters": {"city": "Paris", "days": 2}}'
HERMES = f"<tool_call>\n{NAMED}\n</tool_call>"
QWEN_XML = (
    "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n"
    "<parameter=days>\n2\n</parameter>\n</function>\n</tool_call>"
)
QWEN_INLINE = (
    "<tool_call>\n<function=get_weather>\n<parameter=city>Paris</parameter>\n<parameter=days>2</parameter>\n"
    "</function>\n</tool_call>"
)
GLM = (
    "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n"
    "<arg_key>days</arg_key>\n<arg_value>2</arg_value>\n</tool_call>"
)
GLM_TIGHT = GLM.replace("\n", "")
DEEPSEEK_V3 = (
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n"
    f"{JSON_ARGUMENTS}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
)
DEEPSEEK_V31 = (
    f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{JSON_ARGUMENTS}"
    "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
)
DSML = (
    '<｜DSML｜function_calls>\n<｜DSML｜invoke name="get_weather">\n'
    '<｜DSML｜parameter name="city" string="true">Paris</｜DSML｜parameter>\n'
    '<｜DSML｜parameter name="days" string="false">2</｜DSML｜parameter>\n'
    "</｜DSML｜invoke>\n</｜DSML｜function_calls>"
)
KIMI_K2 = (
    "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>"
    f"{JSON_ARGUMENTS}<|tool_call_end|><|tool_calls_section_end|>"
)
KIMI_K3 = (
    '<|open|>tools<|sep|><|open|>call tool="get_weather" index="1"<|sep|>'
    '<|open|>argument key="city" type="string"<|sep|>Paris<|close|>argument<|sep|>'
    '<|open|>argument key="days" type="number"<|sep|>2<|close|>argument<|sep|>'
    "<|close|>call<|sep|><|close|>tools<|sep|>"
)
MISTRAL = f"[TOOL_CALLS] [{NAMED}]"
MISTRAL_V11 = f"[TOOL_CALLS]get_weather[ARGS]{JSON_ARGUMENTS}"
COHERE = f'[{{"tool_call_id": "0", "tool_name": "get_weather", "parameters": {JSON_ARGUMENTS}}}]'
INVOKE = (
    '<invoke name="get_weather">\n<parameter name="city">Paris</parameter>\n'
    '<parameter name="days">2</parameter>\n</invoke>'
)
NS = "]<]minimax[>["
MINIMAX_M3 = (
    f'{NS}<tool_call>\n{NS}<invoke name="get_weather">\n{NS}<city>Paris{NS}</city>\n{NS}<days>2{NS}</days>\n'
    f"{NS}</invoke>\n{NS}</tool_call>"
)
STEP3 = (
    '<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="get_weather">'
    '<steptml:parameter name="city">Paris</steptml:parameter><steptml:parameter name="days">2</steptml:parameter>'
    "</steptml:invoke><｜tool_call_end｜><｜tool_calls_end｜>"
)
HARMONY = f"<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{JSON_ARGUMENTS}<|call|>"
INKLING = (
    "<|message_model|>get_weather<|content_invoke_tool_json|>"
    f'{{"name": "get_weather", "args": {JSON_ARGUMENTS}}}<|end_message|><|content_model_end_sampling|>'
)
PYTHONIC = "[get_weather(city='Paris', days=2)]"
HUNYUAN_V4 = (
    "<tool_calls>\n<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n"
    "<arg_key>days</arg_key>\n<arg_value>2</arg_value>\n</tool_call>\n</tool_calls>"
)
PLAMO3 = (
    "<|plamo:begin_tool_requests:plamo|><|plamo:begin_tool_request:plamo|><|plamo:begin_tool_name:plamo|>get_weather"
    "<|plamo:end_tool_name:plamo|><|plamo:begin_tool_arguments:plamo|><|plamo:constrain|>json<|plamo:msg|>"
    f"{JSON_ARGUMENTS}<|plamo:end_tool_arguments:plamo|><|plamo:end_tool_request:plamo|>"
    "<|plamo:end_tool_requests:plamo|>"
)
HORIZON = (
    "<ifm|tool_calls><ifm|tool_call>get_weather<ifm|arg_key>city</ifm|arg_key><ifm|arg_value>Paris</ifm|arg_value>"
    "<ifm|arg_key>days</ifm|arg_key><ifm|arg_value>2</ifm|arg_value></ifm|tool_call></ifm|tool_calls>"
)

ATEM = (
    '<atem:function_calls>\n<atem:invoke name="get_weather">\n<atem:parameter name="city">Paris</atem:parameter>\n'
    '<atem:parameter name="days">2</atem:parameter>\n</atem:invoke>\n</atem:function_calls>'
)
BEAM = (
    '<|start|>assistant to=get_weather<|channel|>analysis <|constrain|>xml<|message|><rfl:parameter name="city">\n'
    'Paris\n</rfl:parameter>\n<rfl:parameter name="days">\n2\n</rfl:parameter><|call|>'
)
SOLAR_OPEN2 = (
    "<|tool_call:start|>get_weather\n<|tool_arg:start|>city<|tool_arg:value|>Paris<|tool_arg:end|>\n"
    "<|tool_arg:start|>days<|tool_arg:value|>2<|tool_arg:end|>\n<|tool_call:end|>"
)
MUSE = (" to=self<|message|>", "<|eom|><|start|>assistant to=user<|message|>")

THINK = ("<think>", "</think>")
NO_THOUGHTS = ("", "")

EXAMPLES: dict[str, tuple[tuple[str, str], str]] = {
    "deepseek_r1": (THINK, DEEPSEEK_V3),
    "deepseek_v3": (NO_THOUGHTS, DEEPSEEK_V3),
    "deepseek_v31": (THINK, DEEPSEEK_V31),
    "deepseek_v32": (THINK, DSML),
    "deepseek_v4": (THINK, DSML.replace("function_calls", "tool_calls")),
    "deepseek_v41": (
        THINK,
        DSML.replace("function_calls", " calls")
        .replace("｜invoke", "｜ invoke")
        .replace("｜parameter", "｜ parameter"),
    ),
    "qwen25": (NO_THOUGHTS, HERMES),
    "qwen3": (THINK, HERMES),
    "qwen3_thinking": (THINK, HERMES),
    "qwq": (THINK, HERMES),
    "qwen3_coder": (NO_THOUGHTS, QWEN_XML),
    "qwen35": (THINK, QWEN_XML),
    "kimi_k2": (NO_THOUGHTS, KIMI_K2),
    "kimi_k2_thinking": (THINK, KIMI_K2),
    "kimi_k25": (THINK, KIMI_K2),
    "kimi_k3": (("<|open|>think<|sep|>", "<|close|>think<|sep|>"), KIMI_K3),
    "glm45": (THINK, GLM),
    "glm46": (THINK, GLM),
    "glm47": (THINK, GLM_TIGHT),
    "glm5": (THINK, GLM_TIGHT),
    "llama3": (NO_THOUGHTS, f"<|python_tag|>{PARAMETERS}"),
    "llama4": (NO_THOUGHTS, f"<|python_start|>{PYTHONIC}<|python_end|>"),
    "mistral": (NO_THOUGHTS, MISTRAL),
    "mistral_v11": (NO_THOUGHTS, MISTRAL_V11),
    "magistral": (("[THINK]", "[/THINK]"), MISTRAL_V11),
    "command_r": (NO_THOUGHTS, f"Action: ```json\n{COHERE}\n```"),
    "command_a": (("<|START_THINKING|>", "<|END_THINKING|>"), f"<|START_ACTION|>{COHERE}<|END_ACTION|>"),
    "nemotron_nano_v2": (THINK, f"<TOOLCALL>[{NAMED}]</TOOLCALL>"),
    "nemotron_super": (THINK, f"<TOOLCALL>[{NAMED}]</TOOLCALL>"),
    "nemotron_v3": (THINK, QWEN_XML),
    "minimax_m1": (THINK, f"<tool_calls>\n{NAMED}\n</tool_calls>"),
    "minimax_m2": (THINK, f"<minimax:tool_call>\n{INVOKE}\n</minimax:tool_call>"),
    "minimax_m3": (("<mm:think>", "</mm:think>"), MINIMAX_M3),
    "step3": (THINK, STEP3),
    "step35": (THINK, QWEN_XML),
    "harmony": (("<|channel|>analysis<|message|>", "<|end|><|start|>assistant"), HARMONY),
    "inkling": (("<|message_model|><|content_thinking|>", "<|end_message|>"), INKLING),
    "hermes": (THINK, HERMES),
    "granite3": (("<think>", "</think>"), f"<|tool_call|>[{NAMED}]"),
    "granite4": (THINK, HERMES),
    "granite_20b_fc": (NO_THOUGHTS, f"<function_call> {NAMED}"),
    "phi4": (THINK, f"functools[{NAMED}]"),
    "gemma3": (NO_THOUGHTS, PYTHONIC),
    "functiongemma": (
        NO_THOUGHTS,
        "<start_function_call>call:get_weather{city:<escape>Paris<escape>,days:2}<end_function_call>",
    ),
    "gemma4": (
        ("<|channel>thought\n", "<channel|>"),
        '<|tool_call>call:get_weather{city:<|"|>Paris<|"|>,days:2}<tool_call|>',
    ),
    "seed_oss": (
        ("<seed:think>", "</seed:think>"),
        QWEN_INLINE.replace("<tool_call>", "<seed:tool_call>").replace("</tool_call>", "</seed:tool_call>"),
    ),
    "hunyuan": (THINK, f"<tool_calls>[{NAMED}]</tool_calls>"),
    "hunyuan_v3": (THINK, HUNYUAN_V4.replace("get_weather\n", "get_weather<tool_sep>\n")),
    "hunyuan_v4": (THINK, HUNYUAN_V4.replace("\n", "")),
    "ernie45": (THINK, HERMES),
    "internlm2": (NO_THOUGHTS, f"<|action_start|><|plugin|>\n{PARAMETERS}<|action_end|>"),
    "jamba": (NO_THOUGHTS, f"<tool_calls>[\n{NAMED}\n]</tool_calls>"),
    "olmo3": (THINK, f"<function_calls>\n{PYTHONIC[1:-1]}\n</function_calls>"),
    "xlam": (THINK, f"[{NAMED}]"),
    "lfm2": (NO_THOUGHTS, f"<|tool_call_start|>{PYTHONIC}<|tool_call_end|>"),
    "lfm25": (THINK, f"<|tool_call_start|>{PYTHONIC}<|tool_call_end|>"),
    "exaone4": (THINK, HERMES),
    "sarashina": (NO_THOUGHTS, "<|tool_calls|>[{'name': 'get_weather', 'arguments': {'city': 'Paris', 'days': 2}}]"),
    "minicpm5": (
        THINK,
        '<function name="get_weather"><param name="city"><![CDATA[Paris]]></param><param name="days">2</param></function>',
    ),
    "ling": (THINK, GLM_TIGHT),
    "dots": (THINK, f"<dots_function_call>\n{INVOKE}\n</dots_function_call>"),
    "mimo": (THINK, QWEN_INLINE),
    "longcat": (("<longcat_think>", "</longcat_think>"), f"<longcat_tool_call>{NAMED}</longcat_tool_call>"),
    "apertus": (
        ("<|inner_prefix|>", "<|inner_suffix|>"),
        f'<|tools_prefix|>[{{"get_weather": {JSON_ARGUMENTS}}}]<|tools_suffix|>',
    ),
    "gigachat3": (NO_THOUGHTS, f"<|function_call|>{NAMED}"),
    "gigachat35": (THINK, DSML.replace("function_calls", "tool_calls").replace("DSML", "GCML")),
    "plamo3": (("<|plamo:begin_think:plamo|>", "<|plamo:end_think:plamo|>"), PLAMO3),
    "k2_horizon": (("<ifm|think_fast>", "</ifm|think_fast>"), HORIZON),
    "iquest": (THINK, GLM.replace("tool_call>", "iquestcoder_tool_call>")),
    "muse_glimmer": (MUSE, f"<|eom|><|start|>assistant to=get_weather<|message|>{ATEM}<|eom|>"),
    "muse_spark": (MUSE, f"<|eom|><|start|>assistant to=get_weather<|message|>{ATEM}<|eom|>"),
    "laguna": (THINK, GLM),
    "spark25": (THINK, GLM.replace("</arg_key>\n", "</arg_key>")),
    "trinity": (THINK, HERMES),
    "trinity_thinking": (THINK, QWEN_XML),
    "cohere_north": (("<|START_THINKING|>", "<|END_THINKING|>"), f"<|START_ACTION|>{COHERE}<|END_ACTION|>"),
    "step5": (THINK, QWEN_XML),
    "solar_open2": (("<|think:start|>", "<|think:end|>"), SOLAR_OPEN2),
    "hyperclovax_think": (THINK, GLM.replace(">Paris<", '>"Paris"<')),
    "hyperclovax_think_14b": (
        ("/think\n", "<|im_end|>\n<|im_start|>assistant\n"),
        f"<|im_end|>\n<|im_start|>assistant -> tool/function_call\n[{NAMED}]<|im_end|>",
    ),
    "beam": (
        ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
        f"<|end|>{BEAM}",
    ),
    "json": (NO_THOUGHTS, NAMED),
    "pythonic": (NO_THOUGHTS, PYTHONIC),
}

WITHOUT_CALLS = ("kimi_vl", "plain")
