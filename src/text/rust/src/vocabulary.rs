//! The token list that both kinds of GGUF vocabulary start from.

/// The numbers of tokenizer.ggml.token_type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Normal = 1,
    Unknown = 2,
    Control = 3,
    UserDefined = 4,
    Unused = 5,
    Byte = 6,
}

impl Kind {
    pub fn from_number(number: u8) -> Option<Kind> {
        Some(match number {
            1 => Kind::Normal,
            2 => Kind::Unknown,
            3 => Kind::Control,
            4 => Kind::UserDefined,
            5 => Kind::Unused,
            6 => Kind::Byte,
            _ => return None,
        })
    }
}

/// Borrowed from the caller while a tokenizer is built. The index of a token is its id.
pub struct Tokens<'a> {
    pub entries: Vec<(&'a str, Kind)>,
}

impl<'a> Tokens<'a> {
    pub fn iter(&self) -> impl Iterator<Item = (u32, &'a str, Kind)> + '_ {
        self.entries.iter().enumerate().map(|(id, (text, kind))| (id as u32, *text, *kind))
    }
}
