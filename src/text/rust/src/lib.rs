//! Tokenizers and chat templates for Weft. `ffi` is the C interface that weft_text.h declares; the
//! other modules are plain Rust.

mod bpe;
mod error;
mod ffi;
mod json;
mod special;
mod spm;
mod template;
mod tojson;
mod vocabulary;
mod words;

use error::Error;

/// A tokenizer of any kind.
pub enum Tokenizer {
    Bpe(Box<bpe::Bpe>),
    Spm(Box<spm::Spm>),
    Json(Box<json::Json>),
}

impl Tokenizer {
    pub fn encode(&self, text: &str, parse_special: bool) -> Result<Vec<i32>, Error> {
        match self {
            Tokenizer::Bpe(bpe) => bpe.encode(text, parse_special),
            Tokenizer::Spm(spm) => spm.encode(text, parse_special),
            Tokenizer::Json(json) => json.encode(text, parse_special),
        }
    }
}
