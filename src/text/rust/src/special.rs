//! Cuts a text at the special tokens it holds.

use aho_corasick::{AhoCorasick, MatchKind};

use crate::error::Error;
use crate::vocabulary::{Kind, Tokens};

pub enum Piece<'t> {
    Text(&'t str),
    Special(u32),
}

/// Control tokens are found only where the caller asks for them; user-defined ones always are. Where
/// several match, the leftmost wins, then the longest.
pub struct Special {
    user_defined: Finder,
    all: Finder,
}

impl Special {
    pub fn new(tokens: &Tokens) -> Result<Special, Error> {
        Ok(Special {
            user_defined: Finder::new(tokens, &[Kind::UserDefined])?,
            all: Finder::new(tokens, &[Kind::UserDefined, Kind::Control])?,
        })
    }

    /// Calls `each` for the pieces of `text` in order; no text piece is empty.
    pub fn split<'t>(
        &self,
        text: &'t str,
        parse_special: bool,
        each: &mut dyn FnMut(Piece<'t>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let finder = if parse_special { &self.all } else { &self.user_defined };
        let mut begin = 0;
        if let Some(automaton) = &finder.automaton {
            for found in automaton.find_iter(text) {
                if begin < found.start() {
                    each(Piece::Text(&text[begin..found.start()]))?;
                }
                each(Piece::Special(finder.ids[found.pattern().as_usize()]))?;
                begin = found.end();
            }
        }
        if begin < text.len() {
            each(Piece::Text(&text[begin..]))?;
        }
        Ok(())
    }
}

struct Finder {
    automaton: Option<AhoCorasick>,
    ids: Vec<u32>, // of the automaton's patterns
}

impl Finder {
    fn new(tokens: &Tokens, kinds: &[Kind]) -> Result<Finder, Error> {
        let chosen: Vec<(u32, &str)> = tokens
            .iter()
            .filter(|(_, text, kind)| kinds.contains(kind) && !text.is_empty())
            .map(|(id, text, _)| (id, text))
            .collect();
        let automaton = if chosen.is_empty() {
            None
        } else {
            let built = AhoCorasick::builder()
                .match_kind(MatchKind::LeftmostLongest)
                .build(chosen.iter().map(|(_, text)| text))
                .map_err(|error| Error::invalid(format!("the special tokens: {error}")))?;
            Some(built)
        };
        Ok(Finder { automaton, ids: chosen.into_iter().map(|(id, _)| id).collect() })
    }
}
