//! Chat templates, rendered as transformers renders them with Jinja2.

use std::borrow::Cow;
use std::io::{self, Write};

use minijinja::value::{Value, ValueKind};
use minijinja::{Environment, ErrorKind, Output, State};
use serde_json::Map;

use crate::error::Error;
use crate::tojson;

// What a hostile template may use up: instructions, nested calls, bytes of output. The instructions
// bound how deep a value can nest, and so the stack that showing or dropping it takes.
const FUEL: u64 = 500_000;
const RECURSION: usize = 200;
pub const OUTPUT_BYTES: usize = 64 << 20;
const STACK_BYTES: usize = 512 << 20; // address space; only what is touched becomes memory

const NAME: &str = "chat_template";

pub struct Template {
    environment: Environment<'static>,
}

pub struct Input<'a> {
    pub messages: &'a str,
    pub extra: &'a str,
    pub bos_token: &'a str,
    pub eos_token: &'a str,
    pub add_generation_prompt: bool,
}

impl Template {
    pub fn new(source: &str) -> Result<Template, Error> {
        let mut environment = Environment::new();
        environment.set_trim_blocks(true);
        environment.set_lstrip_blocks(true);
        environment.set_fuel(Some(FUEL));
        environment.set_recursion_limit(RECURSION);
        environment
            .set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.set_formatter(format_as_python);
        environment.add_filter("tojson", tojson::tojson);
        // Its indentation grows with the square of a value's depth, which may be large.
        environment.remove_filter("pprint");
        environment.add_filter("string", string);
        environment.add_filter("trim", trim);
        environment.add_test("iterable", is_iterable);
        environment.add_function("raise_exception", raise_exception);
        environment.add_function("strftime_now", strftime_now);
        environment
            .add_template_owned(NAME, without_generation_tags(source))
            .map_err(|error| Error::invalid(format!("the chat template: {}", one_line(&error))))?;
        Ok(Template { environment })
    }

    /// Renders on a thread of its own, whose stack holds what FUEL allows a template to nest.
    pub fn render(&self, input: &Input) -> Result<String, Error> {
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new()
                .name("chat template".to_owned())
                .stack_size(STACK_BYTES)
                .spawn_scoped(scope, || self.render_here(input))
                .map_err(|error| Error::internal(format!("no thread for a template: {error}")))?;
            thread.join().unwrap_or_else(|_| Err(Error::internal("the chat template panicked")))
        })
    }

    fn render_here(&self, input: &Input) -> Result<String, Error> {
        let variables = variables(input)?;
        let fail = |error: &minijinja::Error| {
            Error::invalid(
                raised(error).unwrap_or_else(|| format!("the chat template: {}", one_line(error))),
            )
        };
        let template = self.environment.get_template(NAME).map_err(|error| fail(&error))?;
        let mut out = Bounded { bytes: Vec::new() };
        template.render_captured_to(variables, &mut out).map_err(|error| fail(&error))?;
        String::from_utf8(out.bytes).map_err(|error| Error::internal(error.to_string()))
    }
}

fn variables(input: &Input) -> Result<Value, Error> {
    let messages: Vec<serde_json::Value> = serde_json::from_str(input.messages)
        .map_err(|error| Error::invalid(format!("the messages are not a JSON array: {error}")))?;
    let extra: Map<String, serde_json::Value> =
        serde_json::from_str(input.extra).map_err(|error| {
            Error::invalid(format!("the template variables are not a JSON object: {error}"))
        })?;
    let mut all = Map::new();
    all.insert("bos_token".to_owned(), input.bos_token.into());
    all.insert("eos_token".to_owned(), input.eos_token.into());
    all.insert("tools".to_owned(), serde_json::Value::Null);
    all.insert("documents".to_owned(), serde_json::Value::Null);
    all.extend(extra);
    all.insert("messages".to_owned(), messages.into());
    all.insert("add_generation_prompt".to_owned(), input.add_generation_prompt.into());
    Ok(Value::from_serialize(&all))
}

struct Bounded {
    bytes: Vec<u8>,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > OUTPUT_BYTES {
            return Err(io::Error::other(format!(
                "the output is longer than {OUTPUT_BYTES} bytes"
            )));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What a template said through raise_exception(), carried inside minijinja's error.
#[derive(Debug)]
struct Raised(String);

impl std::fmt::Display for Raised {
    fn fmt(&self, out: &mut std::fmt::Formatter) -> std::fmt::Result {
        out.write_str(&self.0)
    }
}
impl std::error::Error for Raised {}

fn raise_exception(message: String) -> Result<Value, minijinja::Error> {
    let error = minijinja::Error::new(ErrorKind::InvalidOperation, message.clone());
    Err(error.with_source(Raised(message)))
}

fn raised(error: &minijinja::Error) -> Option<String> {
    let mut next: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = next {
        if let Some(raised) = error.downcast_ref::<Raised>() {
            return Some(raised.0.clone());
        }
        next = error.source();
    }
    None
}

fn one_line(error: &minijinja::Error) -> String {
    error.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The local time by C's strftime, which is what Python's datetime.now().strftime() uses.
fn strftime_now(format: String) -> Result<String, minijinja::Error> {
    let invalid = |text: &str| minijinja::Error::new(ErrorKind::InvalidOperation, text.to_owned());
    if format.is_empty() {
        return Ok(format);
    }
    let format = std::ffi::CString::new(format)
        .map_err(|_| invalid("strftime_now: the format holds a NUL character"))?;
    let mut buffer = [0u8; 1024];
    // SAFETY: both calls write only into the objects given, whose sizes they are told.
    let size = unsafe {
        let now = libc::time(std::ptr::null_mut());
        let mut parts: libc::tm = std::mem::zeroed();
        if libc::localtime_r(&now, &mut parts).is_null() {
            return Err(invalid("strftime_now: the local time is not known"));
        }
        libc::strftime(buffer.as_mut_ptr().cast(), buffer.len(), format.as_ptr(), &parts)
    };
    Ok(String::from_utf8_lossy(&buffer[..size]).into_owned())
}

/// Printed values look as Python's str() shows them: True, None, ['a', 1].
fn format_as_python(out: &mut Output, _: &State, value: &Value) -> Result<(), minijinja::Error> {
    out.write_str(&python_str(value)?).map_err(minijinja::Error::from)
}

fn python_str(value: &Value) -> Result<Cow<'_, str>, minijinja::Error> {
    if let Some(text) = value.as_str() {
        return Ok(Cow::from(text));
    }
    let mut out = String::new();
    if !value.is_undefined() {
        write_repr(value, &mut out)?;
    }
    Ok(Cow::from(out))
}

fn string(value: &Value) -> Result<String, minijinja::Error> {
    Ok(python_str(value)?.into_owned())
}

fn trim(value: &Value, chars: Option<Cow<'_, str>>) -> Result<String, minijinja::Error> {
    let text = python_str(value)?;
    Ok(match chars {
        Some(chars) => text.trim_matches(|c| chars.contains(c)).to_owned(),
        None => text.trim().to_owned(),
    })
}

/// In Python None is not; minijinja takes it for an empty list.
fn is_iterable(value: &Value) -> bool {
    !value.is_none() && value.try_iter().is_ok()
}

fn write_repr(value: &Value, out: &mut String) -> Result<(), minijinja::Error> {
    match value.kind() {
        ValueKind::None => out.push_str("None"),
        ValueKind::Bool => out.push_str(if value.is_true() { "True" } else { "False" }),
        ValueKind::Number => out.push_str(&tojson::number(value)),
        ValueKind::String => write_quoted(value.as_str().unwrap_or_default(), out),
        ValueKind::Seq => {
            out.push('[');
            for (index, item) in value.try_iter()?.enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                write_repr(&item, out)?;
            }
            out.push(']');
        }
        ValueKind::Map => {
            out.push('{');
            for (index, key) in value.try_iter()?.enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                write_repr(&key, out)?;
                out.push_str(": ");
                write_repr(&value.get_item(&key)?, out)?;
            }
            out.push('}');
        }
        _ => out.push_str(&value.to_string()),
    }
    Ok(())
}

fn write_quoted(text: &str, out: &mut String) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            c if c == quote => out.extend(['\\', c]),
            c if (c as u32) < 0x20 || c as u32 == 0x7f => {
                out.push_str(&format!("\\x{:02x}", c as u32))
            }
            c => out.push(c),
        }
    }
    out.push(quote);
}

/// transformers knows a tag, {% generation %}, that marks the assistant's text for training and prints
/// its body; here it becomes an `if true`, which prints the same.
fn without_generation_tags(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(open) = rest.find("{%") {
        let (before, tag) = rest.split_at(open + 2);
        out.push_str(before);
        rest = tag;
        let word_at = tag.find(|c: char| !c.is_whitespace() && c != '-' && c != '+');
        let Some(body) = word_at.map(|at| &tag[at..]) else { break };
        for (word, meaning) in [("generation", "if true"), ("endgeneration", "endif")] {
            let after = body.strip_prefix(word).map(str::trim_start);
            if after.is_some_and(|after| after.starts_with("%}") || after.starts_with("-%}")) {
                out.push_str(&tag[..tag.len() - body.len()]);
                out.push_str(meaning);
                rest = &body[word.len()..];
            }
        }
    }
    out.push_str(rest);
    out
}
