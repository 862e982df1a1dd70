//! A Hugging Face tokenizer.json, run as it is by the crate of its makers.

use serde_json::Value;
use tokenizers::Tokenizer;

use crate::error::Error;
use crate::vocabulary::Kind;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    ByteLevel = 0,
    SentencePiece = 1,
}

/// How ids become text again, read from the file's decoder, normalizer and pre-tokenizer.
pub struct Traits {
    pub style: Style,
    pub drops_first_space: bool,
    pub drops_space_after_special: bool,
    pub bos: Option<u32>,
}

pub struct Json {
    parsing: Tokenizer, // finds special tokens in a text
    plain: Tokenizer,   // takes their names for text
    tokens: Vec<(String, Kind)>,
}

impl Json {
    pub fn new(json: &str) -> Result<(Json, Traits), Error> {
        let invalid =
            |error: &dyn std::fmt::Display| Error::invalid(format!("tokenizer.json: {error}"));
        let file: Value = serde_json::from_str(json).map_err(|error| invalid(&error))?;
        let mut parsing = Tokenizer::from_bytes(json).map_err(|error| invalid(&error))?;
        // A text is never cut or filled up behind the caller's back.
        parsing.with_padding(None);
        parsing.with_truncation(None).map_err(|error| invalid(&error))?;
        let tokens = token_table(&parsing)?;
        let mut traits = read_traits(&file)?;
        traits.bos = bos(&parsing)?;
        let mut plain = parsing.clone();
        plain.set_encode_special_tokens(true);
        Ok((Json { parsing, plain, tokens }, traits))
    }

    pub fn tokens(&self) -> &[(String, Kind)] {
        &self.tokens
    }

    pub fn encode(&self, text: &str, parse_special: bool) -> Result<Vec<i32>, Error> {
        let tokenizer = if parse_special { &self.parsing } else { &self.plain };
        let encoding = tokenizer
            .encode_fast(text, false)
            .map_err(|error| Error::invalid(format!("tokenizing: {error}")))?;
        Ok(encoding.get_ids().iter().map(|id| *id as i32).collect())
    }
}

fn token_table(tokenizer: &Tokenizer) -> Result<Vec<(String, Kind)>, Error> {
    let vocab = tokenizer.get_vocab(true);
    let largest = vocab.values().copied().max().unwrap_or(0) as usize;
    // A few ids may be unused, but the table must not outgrow what the file really holds.
    if vocab.is_empty() || largest >= 2 * vocab.len() + 1024 {
        return Err(Error::invalid(format!(
            "tokenizer.json: the largest id is {largest}, but there are {} tokens",
            vocab.len()
        )));
    }
    let mut tokens = vec![(String::new(), Kind::Unused); largest + 1];
    for (text, id) in vocab {
        let is_byte = text.len() == 6 && text.starts_with("<0x") && text.ends_with('>');
        let kind = if is_byte { Kind::Byte } else { Kind::Normal };
        let entry = &mut tokens[id as usize];
        if entry.1 != Kind::Unused {
            return Err(Error::invalid(format!(
                "tokenizer.json: {:?} and {text:?} share id {id}",
                entry.0
            )));
        }
        *entry = (text, kind);
    }
    for (id, added) in tokenizer.get_added_tokens_decoder() {
        if let Some(entry) = tokens.get_mut(id as usize) {
            let kind = if added.special { Kind::Control } else { Kind::UserDefined };
            *entry = (added.content, kind);
        }
    }
    Ok(tokens)
}

/// The id that the post-processor puts before a text, found by asking it.
fn bos(tokenizer: &Tokenizer) -> Result<Option<u32>, Error> {
    let ids = |add: bool| {
        let encoding = tokenizer.encode_fast("a", add);
        encoding
            .map(|encoding| encoding.get_ids().to_vec())
            .map_err(|error| Error::invalid(format!("tokenizer.json: {error}")))
    };
    let (bare, dressed) = (ids(false)?, ids(true)?);
    let in_front = dressed.len() > bare.len() && dressed[1..].starts_with(&bare);
    Ok(if in_front { dressed.first().copied() } else { None })
}

fn type_of(part: &Value) -> &str {
    part.get("type").and_then(Value::as_str).unwrap_or("none")
}

/// The members of a Sequence, or the part itself.
fn parts<'v>(part: &'v Value, members: &str) -> Vec<&'v Value> {
    match part.get(members).and_then(Value::as_array) {
        Some(list) if type_of(part) == "Sequence" => list.iter().collect(),
        _ => vec![part],
    }
}

fn prepends(metaspace: &Value) -> &str {
    let scheme = metaspace.get("prepend_scheme").and_then(Value::as_str);
    let old_default = metaspace.get("add_prefix_space").and_then(Value::as_bool);
    scheme.unwrap_or(if old_default == Some(false) { "never" } else { "always" })
}

fn read_traits(file: &Value) -> Result<Traits, Error> {
    let decoder = file.get("decoder").unwrap_or(&Value::Null);
    let decoders = parts(decoder, "decoders");
    let mut traits = Traits {
        style: Style::SentencePiece,
        drops_first_space: false,
        drops_space_after_special: false,
        bos: None,
    };
    for part in &decoders {
        match type_of(part) {
            "ByteLevel" if decoders.len() == 1 => traits.style = Style::ByteLevel,
            "Replace" | "ByteFallback" | "Fuse" => {}
            "Strip" => traits.drops_first_space = true,
            "Metaspace" => traits.drops_first_space = prepends(part) != "never",
            other => {
                return Err(Error::unsupported(format!(
                    "tokenizer.json: a decoder of type {other} is not supported; ByteLevel, \
                     Metaspace and SentencePiece's sequence are"
                )))
            }
        }
    }
    if traits.drops_first_space {
        let pre_tokenizer = file.get("pre_tokenizer").unwrap_or(&Value::Null);
        let normalizer = file.get("normalizer").unwrap_or(&Value::Null);
        let always = parts(pre_tokenizer, "pretokenizers")
            .into_iter()
            .any(|part| type_of(part) == "Metaspace" && prepends(part) == "always");
        let normalizer_does =
            parts(normalizer, "normalizers").into_iter().any(|part| type_of(part) == "Prepend");
        traits.drops_space_after_special = always || normalizer_does;
    }
    Ok(traits)
}
