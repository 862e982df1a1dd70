//! SentencePiece BPE: characters merge in the order of their joined pieces' scores.
//!
//! A space is written as U+2581. A character without a piece falls back to its bytes, then to the
//! unknown token. A U+2581 of the text itself goes to bytes too, so that decoding gives it back.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use ahash::AHashMap;

use crate::error::Error;
use crate::special::{Piece, Special};
use crate::vocabulary::{Kind, Tokens};

const SPACE: char = '\u{2581}';

pub struct Spm {
    special: Special,
    pieces: AHashMap<String, (u32, f32)>,
    longest: usize,     // bytes of the longest piece
    spaces_begin: bool, // no piece holds a space after another character, so none spans two words
    bytes: [Option<u32>; 256],
    unknown: Option<u32>,
    space_prefix: bool,
}

#[derive(Clone, Copy)]
struct Symbol {
    begin: usize,
    end: usize, // begin == end: merged into its left neighbour
    previous: usize,
    next: usize,
}

const NONE: usize = usize::MAX;

/// Two neighbours that may merge; the greatest merges first.
struct Pair {
    score: f32,
    left: usize,
    right: usize,
    size: usize, // of the joined text: tells a pair that has changed since
}

impl Ord for Pair {
    fn cmp(&self, other: &Pair) -> Ordering {
        self.score.total_cmp(&other.score).then(other.left.cmp(&self.left))
    }
}
impl PartialOrd for Pair {
    fn partial_cmp(&self, other: &Pair) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl PartialEq for Pair {
    fn eq(&self, other: &Pair) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Pair {}

impl Spm {
    pub fn new(
        tokens: &Tokens,
        scores: &[f32],
        unknown: Option<u32>,
        space_prefix: bool,
    ) -> Result<Spm, Error> {
        let mut pieces = AHashMap::new();
        let mut bytes = [None; 256];
        for (id, text, kind) in tokens.iter() {
            match kind {
                Kind::Normal | Kind::UserDefined => {
                    pieces.insert(text.to_owned(), (id, scores[id as usize]));
                }
                Kind::Byte => bytes[byte_value(text)? as usize] = Some(id),
                Kind::Unknown | Kind::Control | Kind::Unused => {}
            }
        }
        let longest = pieces.keys().map(String::len).max().unwrap_or(0);
        let spaces_begin = pieces.keys().all(|piece| words(piece).count() < 2);
        let special = Special::new(tokens)?;
        Ok(Spm { special, pieces, longest, spaces_begin, bytes, unknown, space_prefix })
    }

    pub fn encode(&self, text: &str, parse_special: bool) -> Result<Vec<i32>, Error> {
        let mut ids = Vec::with_capacity(text.len() / 3);
        let mut after_special = true;
        self.special.split(text, parse_special, &mut |piece| {
            match piece {
                Piece::Special(id) => {
                    ids.push(id as i32);
                    after_special = true;
                }
                Piece::Text(text) => {
                    self.encode_piece(text, self.space_prefix && after_special, &mut ids)?;
                    after_special = false;
                }
            }
            Ok(())
        })?;
        Ok(ids)
    }

    fn encode_piece(&self, text: &str, prefix: bool, ids: &mut Vec<i32>) -> Result<(), Error> {
        let mut written = String::with_capacity(text.len() * 3 / 2 + 3);
        if prefix {
            written.push(SPACE);
        }
        for c in text.chars() {
            if c == SPACE && self.has_bytes(c) {
                self.merge(&written, ids)?;
                written.clear();
                self.fall_back(c, ids)?;
            } else {
                written.push(if c == ' ' { SPACE } else { c });
            }
        }
        self.merge(&written, ids)
    }

    fn merge(&self, text: &str, ids: &mut Vec<i32>) -> Result<(), Error> {
        if self.spaces_begin {
            words(text).try_for_each(|word| self.merge_word(word, ids))
        } else {
            self.merge_word(text, ids)
        }
    }

    fn merge_word(&self, text: &str, ids: &mut Vec<i32>) -> Result<(), Error> {
        let mut symbols: Vec<Symbol> = text
            .char_indices()
            .enumerate()
            .map(|(index, (begin, c))| Symbol {
                begin,
                end: begin + c.len_utf8(),
                previous: if index == 0 { NONE } else { index - 1 },
                next: index + 1,
            })
            .collect();
        if let Some(last) = symbols.last_mut() {
            last.next = NONE;
        }
        let mut pairs: BinaryHeap<Pair> =
            (1..symbols.len()).filter_map(|right| self.pair(text, &symbols, right - 1)).collect();
        while let Some(pair) = pairs.pop() {
            let (left, right) = (symbols[pair.left], symbols[pair.right]);
            let changed = left.begin == left.end
                || right.begin == right.end
                || right.end - left.begin != pair.size;
            if changed {
                continue;
            }
            symbols[pair.left].end = right.end;
            symbols[pair.left].next = right.next;
            symbols[pair.right].end = right.begin;
            if right.next != NONE {
                symbols[right.next].previous = pair.left;
            }
            pairs.extend(self.pair(text, &symbols, pair.left));
            if left.previous != NONE {
                pairs.extend(self.pair(text, &symbols, left.previous));
            }
        }
        for symbol in symbols.iter().filter(|symbol| symbol.begin < symbol.end) {
            let piece = &text[symbol.begin..symbol.end];
            match self.pieces.get(piece) {
                Some((id, _)) => ids.push(*id as i32),
                // Only a single character can lack a piece.
                None => piece.chars().try_for_each(|c| self.fall_back(c, ids))?,
            }
        }
        Ok(())
    }

    fn pair(&self, text: &str, symbols: &[Symbol], left: usize) -> Option<Pair> {
        let right = symbols[left].next;
        if right == NONE {
            return None;
        }
        let (begin, end) = (symbols[left].begin, symbols[right].end);
        if end - begin > self.longest {
            return None;
        }
        let (_, score) = self.pieces.get(&text[begin..end])?;
        Some(Pair { score: *score, left, right, size: end - begin })
    }

    fn has_bytes(&self, c: char) -> bool {
        let mut buffer = [0; 4];
        c.encode_utf8(&mut buffer).bytes().all(|byte| self.bytes[byte as usize].is_some())
    }

    fn fall_back(&self, c: char, ids: &mut Vec<i32>) -> Result<(), Error> {
        let mut buffer = [0; 4];
        if self.has_bytes(c) {
            let bytes = c.encode_utf8(&mut buffer).bytes();
            ids.extend(bytes.filter_map(|byte| self.bytes[byte as usize]).map(|id| id as i32));
            return Ok(());
        }
        let id = self.unknown.ok_or_else(|| {
            Error::invalid(format!(
                "the vocabulary has neither a piece nor bytes for {c:?}, and no unknown token"
            ))
        })?;
        ids.push(id as i32);
        Ok(())
    }
}

/// Cuts before each space that follows another character.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let letter = rest.find(|c| c != SPACE).unwrap_or(rest.len());
        let end = rest[letter..].find(SPACE).map_or(rest.len(), |at| letter + at);
        let (word, after) = rest.split_at(end);
        rest = after;
        Some(word)
    })
}

/// 10 for "<0x0A>".
fn byte_value(text: &str) -> Result<u8, Error> {
    text.strip_prefix("<0x")
        .and_then(|rest| rest.strip_suffix('>'))
        .filter(|digits| digits.len() == 2)
        .and_then(|digits| u8::from_str_radix(digits, 16).ok())
        .ok_or_else(|| Error::invalid(format!("the byte token {text:?} is not of the form <0x0A>")))
}
