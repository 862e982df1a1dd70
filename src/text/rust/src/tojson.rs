//! The `tojson` filter as transformers defines it: Python's json.dumps without HTML escapes.

use minijinja::value::{from_args, Kwargs, Value, ValueKind};
use minijinja::{Error, ErrorKind};

use crate::template::OUTPUT_BYTES;

struct Style {
    indent: Option<String>,
    item_separator: String,
    key_separator: String,
    sort_keys: bool,
    ensure_ascii: bool,
}

/// tojson(value, ensure_ascii=false, indent=none, separators=none, sort_keys=false)
pub fn tojson(value: &Value, rest: minijinja::value::Rest<Value>) -> Result<String, Error> {
    let (positional, named): (&[Value], Kwargs) = from_args(&rest)?;
    let argument = |index: usize, name: &str| -> Result<Value, Error> {
        Ok(match positional.get(index) {
            Some(value) => value.clone(),
            None => named.get::<Option<Value>>(name)?.unwrap_or_default(),
        })
    };
    let indent = indent_text(&argument(1, "indent")?)?;
    let separators = argument(2, "separators")?;
    let (item_separator, key_separator) = if is_given(&separators) {
        let part = |index: usize| separators.get_item(&Value::from(index)).map(|v| v.to_string());
        (part(0)?, part(1)?)
    } else {
        let item = if indent.is_some() { "," } else { ", " };
        (item.to_owned(), ": ".to_owned())
    };
    let style = Style {
        indent,
        item_separator,
        key_separator,
        ensure_ascii: argument(0, "ensure_ascii")?.is_true(),
        sort_keys: argument(3, "sort_keys")?.is_true(),
    };
    named.assert_all_used()?;
    let mut out = String::new();
    write(value, &style, 0, &mut out)?;
    Ok(out)
}

fn is_given(value: &Value) -> bool {
    !value.is_none() && !value.is_undefined()
}

fn indent_text(indent: &Value) -> Result<Option<String>, Error> {
    if !is_given(indent) {
        return Ok(None);
    }
    if let Some(text) = indent.as_str() {
        return Ok(Some(text.to_owned()));
    }
    let width = i64::try_from(indent.clone())?.clamp(0, 64);
    Ok(Some(" ".repeat(width as usize)))
}

fn write(value: &Value, style: &Style, depth: usize, out: &mut String) -> Result<(), Error> {
    if out.len() > OUTPUT_BYTES {
        return Err(Error::new(ErrorKind::InvalidOperation, "tojson: the output is too long"));
    }
    match value.kind() {
        ValueKind::None => out.push_str("null"),
        ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
        ValueKind::Number => out.push_str(&number(value)),
        ValueKind::String => write_string(value.as_str().unwrap_or_default(), style, out),
        ValueKind::Map => write_map(value, style, depth, out)?,
        ValueKind::Seq | ValueKind::Iterable => {
            let items = value.try_iter()?.collect::<Vec<_>>();
            write_block(&items, ['[', ']'], style, depth, out, &mut |item, out| {
                write(item, style, depth + 1, out)
            })?;
        }
        kind => {
            return Err(Error::new(
                ErrorKind::InvalidOperation,
                format!("tojson: a value of type {kind} has no JSON form"),
            ))
        }
    }
    Ok(())
}

fn write_map(value: &Value, style: &Style, depth: usize, out: &mut String) -> Result<(), Error> {
    let mut entries = value
        .try_iter()?
        .map(|key| Ok((key.clone(), value.get_item(&key)?)))
        .collect::<Result<Vec<_>, Error>>()?;
    if style.sort_keys {
        entries.sort_by(|(left, _), (right, _)| left.cmp(right));
    }
    write_block(&entries, ['{', '}'], style, depth, out, &mut |(key, item), out| {
        let mut name = String::new();
        write(key, style, depth, &mut name)?;
        match key.kind() {
            ValueKind::String => out.push_str(&name),
            _ => write_string(&name, style, out),
        }
        out.push_str(&style.key_separator);
        write(item, style, depth + 1, out)
    })
}

fn write_block<T>(
    items: &[T],
    [open, close]: [char; 2],
    style: &Style,
    depth: usize,
    out: &mut String,
    each: &mut dyn FnMut(&T, &mut String) -> Result<(), Error>,
) -> Result<(), Error> {
    let new_line = |depth: usize, out: &mut String| {
        if let Some(indent) = &style.indent {
            out.push('\n');
            (0..depth).for_each(|_| out.push_str(indent));
        }
    };
    out.push(open);
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push_str(&style.item_separator);
        }
        new_line(depth + 1, out);
        each(item, out)?;
    }
    if !items.is_empty() {
        new_line(depth, out);
    }
    out.push(close);
    Ok(())
}

fn write_string(text: &str, style: &Style, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if (c as u32) < 0x20 || (style.ensure_ascii && !c.is_ascii()) => {
                let mut units = [0; 2];
                for unit in c.encode_utf16(&mut units) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// As Python writes it: 1e+20 and 1e-05, where Rust writes 100000000000000000000 and 0.00001.
pub fn number(value: &Value) -> String {
    if value.is_integer() {
        return value.to_string();
    }
    let Ok(float) = f64::try_from(value.clone()) else { return value.to_string() };
    if float.is_nan() {
        return "NaN".to_owned();
    }
    if float.is_infinite() {
        return if float > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let magnitude = float.abs();
    if magnitude != 0.0 && !(1e-4..1e16).contains(&magnitude) {
        let text = format!("{float:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, exponent) = match exponent.strip_prefix('-') {
            Some(rest) => ('-', rest),
            None => ('+', exponent),
        };
        return format!("{digits}e{sign}{exponent:0>2}");
    }
    format!("{float:?}")
}
