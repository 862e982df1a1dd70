//! Pre-tokenization: cuts a text into the words that byte-level BPE merges within.
//!
//! The published patterns end in `\s+(?!\S)|\s+`: a run of spaces before a word leaves its last space
//! to that word. A look-ahead needs a backtracking matcher; the same cut is made here by a plain
//! `\s+` and giving the last space back, so that matching stays linear whatever the text.

use regex::Regex;

use crate::error::Error;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    Gpt2,
    SmolLm,
    Qwen2,
    Llama3,
}

impl Split {
    pub fn from_number(number: i32) -> Option<Split> {
        Some(match number {
            0 => Split::Gpt2,
            1 => Split::SmolLm,
            2 => Split::Qwen2,
            3 => Split::Llama3,
            _ => return None,
        })
    }

    fn pattern(self) -> String {
        let suffixes = "'s|'t|'re|'ve|'m|'ll|'d";
        let gpt2 =
            |digits: &str| format!(r"{suffixes}| ?\p{{L}}+|{digits}| ?[^\s\p{{L}}\p{{N}}]+|\s+");
        let llama3 = |digits: &str| {
            format!(
                r"(?i:{suffixes})|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|{digits}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|\s*[\r\n]+|\s+"
            )
        };
        match self {
            Split::Gpt2 => gpt2(r" ?\p{N}+"),
            Split::SmolLm => gpt2(r"\p{N}"),
            Split::Qwen2 => llama3(r"\p{N}"),
            Split::Llama3 => llama3(r"\p{N}{1,3}"),
        }
    }
}

pub struct Words {
    split: Split,
    regex: Regex,
}

impl Words {
    pub fn new(split: Split) -> Result<Words, Error> {
        let regex =
            Regex::new(&split.pattern()).map_err(|error| Error::internal(error.to_string()))?;
        Ok(Words { split, regex })
    }

    /// Calls `each` for the words of `text` in order. Together they are the text.
    pub fn split<'t>(
        &self,
        text: &'t str,
        each: &mut dyn FnMut(&'t str) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut begin = 0;
        while begin < text.len() {
            let Some(found) = self.regex.find_at(text, begin) else { break };
            if begin < found.start() {
                each(&text[begin..found.start()])?;
            }
            let end = found.end() - self.given_back(found.as_str(), &text[found.end()..]);
            each(&text[found.start()..end])?;
            begin = end;
        }
        if begin < text.len() {
            each(&text[begin..])?;
        }
        Ok(())
    }

    /// The bytes at the end of a run of spaces that belong to the word after it.
    fn given_back(&self, found: &str, rest: &str) -> usize {
        let mut chars = found.chars();
        let Some(last) = chars.next_back() else { return 0 };
        // A run that ends in a line break came from the alternative before `\s+`, where there is one.
        let line_breaks_apart = matches!(self.split, Split::Qwen2 | Split::Llama3);
        let from_spaces = last.is_whitespace()
            && !(line_breaks_apart && matches!(last, '\r' | '\n'))
            && chars.next_back().is_some_and(char::is_whitespace);
        // SmolLM cuts its digits out first: to the rest of the pattern the text ends before a digit.
        let takes_space = |next: char| {
            let cut_out = self.split == Split::SmolLm && next.is_numeric();
            !(next.is_whitespace() || cut_out)
        };
        if from_spaces && rest.chars().next().is_some_and(takes_space) {
            last.len_utf8()
        } else {
            0
        }
    }
}
