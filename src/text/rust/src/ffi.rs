//! The functions of weft_text.h.
//!
//! Every entry point runs inside `guard`, so that a panic becomes a status. What the caller owes is in
//! the header: pointers are valid for the sizes given, handles come from here and are freed once.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr;

use crate::bpe::Bpe;
use crate::error::{Error, Kind as ErrorKind};
use crate::json::Json;
use crate::spm::Spm;
use crate::template::{Input, Template};
use crate::vocabulary::{Kind, Tokens};
use crate::words::Split;
use crate::Tokenizer;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Slice {
    data: *const u8,
    size: usize,
}

impl Slice {
    unsafe fn bytes<'a>(self) -> &'a [u8] {
        array(self.data, self.size)
    }

    /// `what` names the string in the error.
    unsafe fn text<'a>(self, what: &str) -> Result<&'a str, Error> {
        std::str::from_utf8(self.bytes()).map_err(|error| {
            Error::invalid(format!("{what} is not valid UTF-8 at byte {}", error.valid_up_to()))
        })
    }
}

unsafe fn array<'a, T>(data: *const T, count: usize) -> &'a [T] {
    if count == 0 {
        &[]
    } else {
        std::slice::from_raw_parts(data, count)
    }
}

#[repr(C)]
pub struct OwnedString {
    data: *mut u8,
    size: usize,
}

#[repr(C)]
pub struct Ids {
    data: *mut i32,
    size: usize,
}

/// Leaks a boxed slice to C; `reclaim` takes it back.
fn leak<T>(values: Vec<T>) -> (*mut T, usize) {
    let values = values.into_boxed_slice();
    let size = values.len();
    if size == 0 {
        return (ptr::null_mut(), 0);
    }
    (Box::into_raw(values).cast(), size)
}

unsafe fn reclaim<T>(data: *mut T, size: usize) {
    if !data.is_null() {
        drop(Box::from_raw(ptr::slice_from_raw_parts_mut(data, size)));
    }
}

impl From<String> for OwnedString {
    fn from(text: String) -> OwnedString {
        let (data, size) = leak(text.into_bytes());
        OwnedString { data, size }
    }
}

#[repr(C)]
pub struct Status {
    code: i32,
    message: OwnedString,
}

fn guard(run: impl FnOnce() -> Result<(), Error>) -> Status {
    let result = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(Error::internal(format!("internal error: {}", text.unwrap_or("unknown"))))
    });
    let (code, message) = match result {
        Ok(()) => (0, String::new()),
        Err(error) => {
            let code = match error.kind {
                ErrorKind::Invalid => 1,
                ErrorKind::Unsupported => 2,
                ErrorKind::Internal => 3,
            };
            (code, error.message.replace(['\n', '\r'], " "))
        }
    };
    Status { code, message: message.into() }
}

unsafe fn give<T>(out: *mut *mut T, value: T) {
    *out = Box::into_raw(Box::new(value));
}

unsafe fn read_tokens<'a>(
    texts: *const Slice,
    kinds: *const u8,
    count: usize,
) -> Result<Tokens<'a>, Error> {
    let entries = array(texts, count)
        .iter()
        .zip(array(kinds, count))
        .enumerate()
        .map(|(id, (text, kind))| {
            let kind = Kind::from_number(*kind)
                .ok_or_else(|| Error::invalid(format!("token {id} has the unknown type {kind}")))?;
            Ok((text.text(&format!("token {id}"))?, kind))
        })
        .collect::<Result<_, Error>>()?;
    Ok(Tokens { entries })
}

#[repr(C)]
pub struct BpeSpec {
    texts: *const Slice,
    kinds: *const u8,
    count: usize,
    merges: *const [i32; 2],
    merge_count: usize,
    split: i32,
    whole_words: bool,
}

/// # Safety
/// See weft_text.h.
#[no_mangle]
pub unsafe extern "C" fn weft_bpe_create(spec: *const BpeSpec, out: *mut *mut Tokenizer) -> Status {
    guard(|| {
        let spec = &*spec;
        let tokens = read_tokens(spec.texts, spec.kinds, spec.count)?;
        let merges = array(spec.merges, spec.merge_count);
        let split = Split::from_number(spec.split)
            .ok_or_else(|| Error::internal(format!("no split has the number {}", spec.split)))?;
        give(out, Tokenizer::Bpe(Box::new(Bpe::new(&tokens, merges, split, spec.whole_words)?)));
        Ok(())
    })
}

#[repr(C)]
pub struct SpmSpec {
    texts: *const Slice,
    kinds: *const u8,
    scores: *const f32,
    count: usize,
    unknown: i32,
    space_prefix: bool,
}

/// # Safety
/// See weft_text.h.
#[no_mangle]
pub unsafe extern "C" fn weft_spm_create(spec: *const SpmSpec, out: *mut *mut Tokenizer) -> Status {
    guard(|| {
        let spec = &*spec;
        let tokens = read_tokens(spec.texts, spec.kinds, spec.count)?;
        let scores = array(spec.scores, spec.count);
        let unknown = u32::try_from(spec.unknown).ok();
        give(out, Tokenizer::Spm(Box::new(Spm::new(&tokens, scores, unknown, spec.space_prefix)?)));
        Ok(())
    })
}

#[repr(C)]
pub struct JsonTraits {
    style: i32,
    drops_first_space: bool,
    drops_space_after_special: bool,
    bos: i32,
    count: usize,
}

/// # Safety
/// See weft_text.h.
#[no_mangle]
pub unsafe extern "C" fn weft_json_create(
    json: Slice,
    out: *mut *mut Tokenizer,
    traits: *mut JsonTraits,
) -> Status {
    guard(|| {
        let (json, found) = Json::new(json.text("tokenizer.json")?)?;
        *traits = JsonTraits {
            style: found.style as i32,
            drops_first_space: found.drops_first_space,
            drops_space_after_special: found.drops_space_after_special,
            bos: found.bos.map_or(-1, |id| id as i32),
            count: json.tokens().len(),
        };
        give(out, Tokenizer::Json(Box::new(json)));
        Ok(())
    })
}

/// # Safety
/// See weft_text.h.
#[no_mangle]
pub unsafe extern "C" fn weft_json_token(
    tokenizer: *const Tokenizer,
    id: i32,
    kind: *mut u8,
) -> Slice {
    let tokens = match &*tokenizer {
        Tokenizer::Json(json) => json.tokens(),
        Tokenizer::Bpe(_) | Tokenizer::Spm(_) => &[],
    };
    match usize::try_from(id).ok().and_then(|id| tokens.get(id)) {
        Some((text, found)) => {
            *kind = *found as u8;
            Slice { data: text.as_ptr(), size: text.len() }
        }
        None => {
            *kind = Kind::Unused as u8;
            Slice { data: ptr::null(), size: 0 }
        }
    }
}

/// # Safety
/// See weft_text.h.
#[no_mangle]
pub unsafe extern "C" fn weft_tokenizer_free(tokenizer: *mut Tokenizer) {
    free(tokenizer);
}

/// # Safety
/// See weft_text.h.
#[no_mangle]
pub unsafe extern "C" fn weft_encode(
    tokenizer: *const Tokenizer,
    text: Slice,
    parse_special: bool,
    out: *mut Ids,
) -> Status {
    guard(|| {
        let (data, size) = leak((*tokenizer).encode(text.text("the text")?, parse_special)?);
        *out = Ids { data, size };
        Ok(())
    })
}

/// # Safety
/// See weft_text.h.
#[no_mangle]
pub unsafe extern "C" fn weft_template_create(source: Slice, out: *mut *mut Template) -> Status {
    guard(|| {
        give(out, Template::new(source.text("the chat template")?)?);
        Ok(())
    })
}

/// # Safety
/// See weft_text.h.
#[no_mangle]
pub unsafe extern "C" fn weft_template_free(template: *mut Template) {
    free(template);
}

#[repr(C)]
pub struct RenderInput {
    messages: Slice,
    extra: Slice,
    bos_token: Slice,
    eos_token: Slice,
    add_generation_prompt: bool,
}

/// # Safety
/// See weft_text.h.
#[no_mangle]
pub unsafe extern "C" fn weft_template_render(
    template: *const Template,
    input: *const RenderInput,
    out: *mut OwnedString,
) -> Status {
    guard(|| {
        let given = &*input;
        let input = Input {
            messages: given.messages.text("the list of messages")?,
            extra: given.extra.text("the list of template variables")?,
            bos_token: given.bos_token.text("the BOS token")?,
            eos_token: given.eos_token.text("the EOS token")?,
            add_generation_prompt: given.add_generation_prompt,
        };
        *out = (*template).render(&input)?.into();
        Ok(())
    })
}

/// # Safety
/// See weft_text.h.
#[no_mangle]
pub unsafe extern "C" fn weft_string_free(string: OwnedString) {
    reclaim(string.data, string.size);
}

/// # Safety
/// See weft_text.h.
#[no_mangle]
pub unsafe extern "C" fn weft_ids_free(ids: Ids) {
    reclaim(ids.data, ids.size);
}

/// A panic while dropping has no one to go to; the handle is gone either way.
unsafe fn free<T>(handle: *mut T) {
    if !handle.is_null() {
        let _ = catch_unwind(AssertUnwindSafe(|| drop(Box::from_raw(handle))));
    }
}
