//! Errors as they cross to C: a kind and one line of text.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Invalid,
    Unsupported,
    Internal,
}

#[derive(Debug)]
pub struct Error {
    pub kind: Kind,
    pub message: String,
}

impl Error {
    pub fn invalid(message: impl Into<String>) -> Error {
        Error { kind: Kind::Invalid, message: message.into() }
    }

    pub fn unsupported(message: impl Into<String>) -> Error {
        Error { kind: Kind::Unsupported, message: message.into() }
    }

    pub fn internal(message: impl Into<String>) -> Error {
        Error { kind: Kind::Internal, message: message.into() }
    }
}
