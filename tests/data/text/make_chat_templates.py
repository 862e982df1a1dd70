"""Renders chat templates with Python's jinja2, set up as transformers sets it up.

    pip install jinja2
    python make_chat_templates.py

chat_templates.json: rows of {name, template, messages, add_generation_prompt, extra, expected}, or `raises` in place of
`expected` where the template calls raise_exception.
"""

import json
import pathlib

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

HERE = pathlib.Path(__file__).parent


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        next(parser.stream)
        return parser.parse_statements(["name:endgeneration"], drop_needle=True)


def environment():
    def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(
            value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
        )

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    made = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    made.filters["tojson"] = tojson
    made.globals["raise_exception"] = raise_exception
    return made


HELLO = [{"role": "user", "content": "Hello <b>\"you\"</b> & 'me' — 你好\n"}]
TALK = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "  Hi "},
    {"role": "assistant", "content": "Hello!"},
    {"role": "user", "content": "Bye"},
]
PARTS = [{"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "image_url"}, {"type": "text", "text": "two"}]}]
TOOLS = {
    "tools": [
        {
            "type": "function",
            "function": {
                "name": "weather",
                "description": "The <weather> & more — é",
                "parameters": {"zebra": 1.0, "apple": [], "mango": {}, "list": [1, True, None, -2.5e-7, 1e20, "x\u0001\t"]},
            },
        }
    ]
}
CALL = [
    {"role": "user", "content": "Weather?"},
    {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "weather", "arguments": {"city": "Bern"}}}]},
    {"role": "tool", "content": "20"},
]

TURNS = """{% for message in messages %}
    {% if loop.first and message.role != 'system' %}
{{ '<|im_start|>system\\nBe kind.<|im_end|>\\n' }}
    {%- endif %}
<|im_start|>{{ message['role'] }}
{{ message['content'] }}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}
"""

ROWS = [
    ("whitespace control", TURNS, TALK, True, {}),
    ("no generation prompt", TURNS, HELLO, False, {}),
    ("bos and eos", "{{ bos_token }}{% for m in messages %}{{ m.content | trim }}{{ eos_token }}{% endfor %}", TALK, True, {}),
    ("tojson", "{{ tools | tojson }}|{{ messages | tojson }}", HELLO, True, TOOLS),
    ("tojson with indent", "{{ tools | tojson(indent=4) }}\n{{ tools[0] | tojson(indent=2, sort_keys=true) }}", HELLO, True, TOOLS),
    ("tojson in ASCII", "{{ messages[0].content | tojson(ensure_ascii=true) }}{{ '🙂' | tojson(true) }}", HELLO, True, {}),
    ("tojson with separators", "{{ tools | tojson(separators=(',', ':')) }}", HELLO, True, TOOLS),
    ("tools are none when absent", "{% if tools is none %}none{% endif %}{{ tools is defined }}{{ nothing is defined }}", HELLO, True, {}),
    ("values print as in Python", "{{ true }} {{ none }} {{ [1, 'a', 2.0, false] }} {{ tools[0] }} {{ 1.5 }} {{ 7 // 2 }} {{ 7 / 2 }}{{ nothing }}", HELLO, True, TOOLS),
    ("parts stay a list",
     "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}{% if p.type == 'text' %}[{{ p.text }}]{% endif %}{% endfor %}{% endif %}{% endfor %}",
     PARTS, True, {}),
    ("a list printed whole", "{{ messages[0].content | trim }}/{{ messages[0].content | string }}", PARTS, True, {}),
    ("methods of Python",
     "{{ messages[1].content.strip() }}|{{ 'a,b,c'.split(',')[-1] }}|{{ 'Abc'.upper() }}|{{ 'abc'.startswith('ab') }}|{{ 'x</think>y'.split('</think>')[-1].lstrip('\\n') }}|{% for k, v in messages[0].items() %}{{ k }}={{ v }};{% endfor %}|{{ messages[0].get('missing', 'no') }}|{{ 'a-b'.replace('-', '+') }}",
     TALK, True, {}),
    ("slices", "{% for m in messages[::-1] %}{{ m.role }},{% endfor %}{% for m in messages[1:] %}{{ loop.index0 }}{{ m.role }},{% endfor %}{{ messages[-1].content }}", TALK, True, {}),
    ("namespace", "{% set ns = namespace(n=0, last='') %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% set ns.last = m.role %}{% endfor %}{{ ns.n }}{{ ns.last }}", TALK, True, {}),
    ("loop controls", "{% for m in messages %}{% if m.role == 'system' %}{% continue %}{% endif %}{{ m.content }}{% if loop.index == 3 %}{% break %}{% endif %}{% endfor %}", TALK, True, {}),
    ("macro", "{% macro show(m, mark='*') %}{{ mark }}{{ m.role }}{{ mark }}{% endmacro %}{% for m in messages %}{{ show(m) }}{{ show(m, mark='-') }}{% endfor %}", TALK, True, {}),
    ("generation tags", "{% for m in messages %}{%- if m.role == 'assistant' %}\n{% generation %}\n{{ m.content }}{% endgeneration %}\n{% else %}<{{ m.content }}>{%- endif %}{% endfor %}{%- generation -%} x {%- endgeneration -%}", TALK, True, {}),
    ("tool calls", "{% for m in messages %}{% if m.tool_calls %}{% for c in m.tool_calls %}{{ c.function.name }}({{ c.function.arguments | tojson }}){% endfor %}{% elif m.content is not none %}{{ m.role + ': ' + m.content }}{% endif %}{% endfor %}", CALL, True, TOOLS),
    ("none is not iterable", "{{ tools is iterable }}{{ messages is iterable }}{{ messages[0] is mapping }}{{ 'a' is string }}", HELLO, True, {}),
    ("filters", "{{ messages | map(attribute='role') | join(', ') }}|{{ messages | selectattr('role', 'equalto', 'user') | list | length }}|{{ messages | length }}|{{ nothing | default('d') }}|{{ 'hello world' | title }}|{{ 'a\\nb' | indent(2) }}", TALK, True, {}),
    ("variables of the request", "{{ enable_thinking }}{% if enable_thinking is defined and enable_thinking is false %}<think></think>{% endif %}{{ custom.a[1] }}", HELLO, True, {"enable_thinking": False, "custom": {"a": [1, 2]}}),
    ("trailing newline", "{{ messages[0].role }}\n", HELLO, True, {}),
    ("raise_exception", "{% if messages[0].role != 'system' %}{{ raise_exception('A system message is needed: ' + messages[0].role) }}{% endif %}", HELLO, True, {}),
]


def render(template, messages, add_generation_prompt, extra):
    variables = {"bos_token": "<s>", "eos_token": "</s>", "tools": None, "documents": None, **extra}
    try:
        text = environment().from_string(template).render(
            **variables, messages=messages, add_generation_prompt=add_generation_prompt
        )
        return {"expected": text}
    except jinja2.exceptions.TemplateError as error:
        return {"raises": error.message}


def main():
    rows = [
        {"name": name, "template": template, "messages": messages, "add_generation_prompt": prompt, "extra": extra,
         **render(template, messages, prompt, extra)}
        for name, template, messages, prompt, extra in ROWS
    ]
    (HERE / "chat_templates.json").write_text(json.dumps(rows, indent=1) + "\n")


main()
