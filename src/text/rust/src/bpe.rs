//! Byte-level BPE as GPT-2 introduced it: every byte is written as a printable character, words are
//! merged by rank.

use tokenizers::models::bpe::{Vocab, BPE};
use tokenizers::Model;

use crate::error::Error;
use crate::special::{Piece, Special};
use crate::vocabulary::{Kind, Tokens};
use crate::words::{Split, Words};

pub struct Bpe {
    special: Special,
    words: Words,
    model: BPE,
    byte_chars: [char; 256],
}

impl Bpe {
    pub fn new(
        tokens: &Tokens,
        merges: &[[i32; 2]],
        split: Split,
        whole_words: bool,
    ) -> Result<Bpe, Error> {
        // No text may become a control token by merging, so they stay out of the model.
        let vocab: Vocab = tokens
            .iter()
            .filter(|(_, _, kind)| *kind != Kind::Control)
            .map(|(id, text, _)| (text.to_owned(), id))
            .collect();
        let text_of = |id: i32| -> Result<String, Error> {
            let entry = usize::try_from(id).ok().and_then(|id| tokens.entries.get(id));
            match entry {
                Some((text, _)) => Ok((*text).to_owned()),
                None => Err(Error::invalid(format!("a merge names id {id}"))),
            }
        };
        let merges = merges
            .iter()
            .map(|[left, right]| Ok((text_of(*left)?, text_of(*right)?)))
            .collect::<Result<Vec<_>, Error>>()?;
        let model = BPE::builder()
            .vocab_and_merges(vocab, merges)
            .ignore_merges(whole_words)
            .build()
            .map_err(|error| Error::invalid(format!("the merges: {error}")))?;
        Ok(Bpe {
            special: Special::new(tokens)?,
            words: Words::new(split)?,
            model,
            byte_chars: byte_chars(),
        })
    }

    /// A byte that the vocabulary lacks gives no id, as in the implementations it was trained with.
    pub fn encode(&self, text: &str, parse_special: bool) -> Result<Vec<i32>, Error> {
        let mut ids = Vec::with_capacity(text.len() / 3);
        let mut written = String::new();
        self.special.split(text, parse_special, &mut |piece| match piece {
            Piece::Special(id) => {
                ids.push(id as i32);
                Ok(())
            }
            Piece::Text(text) => self.words.split(text, &mut |word| {
                written.clear();
                written.extend(word.bytes().map(|byte| self.byte_chars[byte as usize]));
                let tokens = self
                    .model
                    .tokenize(&written)
                    .map_err(|error| Error::internal(error.to_string()))?;
                ids.extend(tokens.iter().map(|token| token.id as i32));
                Ok(())
            }),
        })?;
        Ok(ids)
    }
}

/// GPT-2's table: printable Latin-1 bytes stand for themselves, the others for U+0100 and up.
fn byte_chars() -> [char; 256] {
    let mut chars = ['\0'; 256];
    let mut next = 0x100;
    for byte in 0..=255u8 {
        chars[byte as usize] = match byte {
            b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff => char::from(byte),
            _ => {
                next += 1;
                char::from_u32(next - 1).unwrap_or('\0')
            }
        };
    }
    chars
}
