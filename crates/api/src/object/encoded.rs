//! Objects that stay bytes, for those who only pass them on.
use std::{
    any::Any,
    fmt,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use bytes::Bytes;
use prost::{Message, Name};

use super::{
    Object, ObjectError, decode_error,
    splice::{self, Glance, Shown, Span},
    wire,
};
use crate::{ObjectMeta, kind::Kind};

/// How many forms of one object are kept; whoever asks for more of them has it made for itself.
const FORMS_MAX: usize = 16;

/// One resource as the protobuf bytes of its kind. Cheap to clone, and what is made of it is made
/// once for all who hold a clone: a change that a thousand watch is decoded and written once.
#[derive(Clone)]
pub struct Encoded {
    inner: Arc<Inner>,
}

struct Inner {
    kind: Arc<Kind>,
    /// Bytes or the object are there from the beginning; the other is made when somebody wants it.
    raw: Option<Bytes>,
    object: OnceLock<Box<Object>>,
    /// What is shown otherwise than `raw` says it, and the bytes that say it so.
    shown: Shown,
    bytes: OnceLock<Bytes>,
    /// Of `raw`.
    glance: OnceLock<Option<Glance>>,
    typed: OnceLock<Arc<dyn Any + Send + Sync>>,
    view: OnceLock<Encoded>,
    forms: Mutex<Vec<(Form, Bytes)>>,
}

/// One way to write an object: what it is called, and a number that tells its uses apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Form {
    pub name: Arc<str>,
    pub number: u8,
}

impl Encoded {
    /// Takes bytes as [`Object::encode`] writes them.
    pub fn new(kind: &Arc<Kind>, bytes: Bytes) -> Self {
        Self::of_raw(kind, bytes, Shown::default(), OnceLock::new())
    }

    fn of_raw(
        kind: &Arc<Kind>,
        raw: Bytes,
        shown: Shown,
        glance: OnceLock<Option<Glance>>,
    ) -> Self {
        let (object, bytes, typed, view, forms) = <_>::default();
        let (kind, raw) = (kind.clone(), Some(raw));
        let inner = Inner { kind, raw, object, shown, bytes, glance, typed, view, forms };
        Self { inner: Arc::new(inner) }
    }

    /// An object that was read from bytes that hold no revision, at this one. Its type is what its
    /// kind says, whatever was written.
    pub fn at(
        kind: &Arc<Kind>,
        bytes: &Bytes,
        resource_version: &str,
    ) -> Result<Self, ObjectError> {
        let read = Self::new(kind, bytes.clone());
        let shown = Shown { resource_version: Some(resource_version.into()), project: None };
        read.shown(shown, |object| object.set_resource_version(resource_version))
    }

    /// The same object in a project of another name.
    pub fn in_project(&self, project: &str) -> Result<Self, ObjectError> {
        let shown = Shown { project: Some(project.into()), ..self.inner.shown.clone() };
        self.shown(shown, |object| object.set_project(project))
    }

    /// The same object as it is kept: in a project by its id, and without a revision.
    pub fn stored_in(&self, project: &str) -> Result<Self, ObjectError> {
        let shown = Shown { project: Some(project.into()), resource_version: Some("".into()) };
        self.shown(shown, |object| {
            object.set_project(project);
            object.set_resource_version("");
        })
    }

    /// The same object, shown so. No bytes are made before somebody wants them.
    fn shown(
        &self,
        shown: Shown,
        otherwise: impl FnOnce(&mut Object),
    ) -> Result<Self, ObjectError> {
        if self.glance().is_some() {
            let glance = self.inner.glance.clone();
            return Ok(Self::of_raw(self.kind(), self.raw().clone(), shown, glance));
        }
        let mut object = self.object()?.clone();
        otherwise(&mut object);
        Ok(Self::from(object))
    }

    /// An object of a typed value.
    pub fn from_typed<T: Message + Name>(kind: &Arc<Kind>, value: &T) -> Result<Self, ObjectError> {
        super::check_type(kind, T::full_name())?;
        Ok(Self::new(kind, value.encode_to_vec().into()))
    }

    pub fn kind(&self) -> &Arc<Kind> {
        &self.inner.kind
    }

    /// The object, encoded once.
    pub fn bytes(&self) -> &Bytes {
        self.inner.bytes()
    }

    /// Bytes of the object in which the project and the revision may be others, and nothing else.
    pub(crate) fn raw(&self) -> &Bytes {
        self.inner.raw.as_ref().unwrap_or_else(|| self.bytes())
    }

    /// About how much memory it takes.
    pub fn size(&self) -> usize {
        self.raw().len()
    }

    /// The object, decoded once.
    pub fn object(&self) -> Result<&Object, ObjectError> {
        if let Some(object) = self.decoded() {
            return Ok(object);
        }
        let object = Object::decode(self.kind(), self.bytes())?;
        Ok(self.inner.object.get_or_init(|| Box::new(object)))
    }

    /// The object, where somebody has decoded it or it was made of one.
    pub(super) fn decoded(&self) -> Option<&Object> {
        self.inner.object.get().map(Box::as_ref)
    }

    /// The object, as the caller's own.
    pub fn into_object(self) -> Result<Object, ObjectError> {
        match Arc::try_unwrap(self.inner) {
            Ok(mut inner) => match inner.object.take() {
                Some(object) => Ok(*object),
                None => Object::decode(&inner.kind, inner.bytes()),
            },
            Err(inner) => Self { inner }.object().cloned(),
        }
    }

    /// A typed copy, for code that acts on one kind.
    pub fn typed<T: Message + Name + Default>(&self) -> Result<T, ObjectError> {
        super::check_type(self.kind(), T::full_name())?;
        T::decode(self.bytes().clone()).map_err(|error| decode_error(self.kind().kind(), &error))
    }

    /// The typed object, decoded once for all who hold a clone and want this type.
    pub fn typed_shared<T: Message + Name + Default + 'static>(
        &self,
    ) -> Result<Arc<T>, ObjectError> {
        if let Some(known) = self.inner.typed.get()
            && let Ok(typed) = known.clone().downcast::<T>()
        {
            return Ok(typed);
        }
        let made = Arc::new(self.typed::<T>()?);
        // Another type was there first, or another thread: this one is the caller's own.
        let _ = self.inner.typed.set(made.clone());
        Ok(made)
    }

    /// A typed copy of the metadata; nothing else is read.
    pub fn meta(&self) -> Result<ObjectMeta, ObjectError> {
        match splice::metadata(self.kind(), self.bytes()) {
            Some(bytes) => {
                ObjectMeta::decode(bytes).map_err(|error| decode_error("ObjectMeta", &error))
            }
            None => self.object().map(Object::meta),
        }
    }

    pub fn name(&self) -> Result<&str, ObjectError> {
        self.meta_text(None, |glance| glance.name, Object::name)
    }

    pub fn project(&self) -> Result<&str, ObjectError> {
        let shown = self.inner.shown.project.as_deref();
        self.meta_text(shown, |glance| glance.project, Object::project)
    }

    pub fn uid(&self) -> Result<&str, ObjectError> {
        self.meta_text(None, |glance| glance.uid, Object::uid)
    }

    pub fn resource_version(&self) -> Result<&str, ObjectError> {
        let shown = self.inner.shown.resource_version.as_deref();
        self.meta_text(shown, |glance| glance.resource_version, Object::resource_version)
    }

    fn meta_text<'a>(
        &'a self,
        shown: Option<&'a str>,
        place: fn(&Glance) -> Span,
        of: fn(&Object) -> &str,
    ) -> Result<&'a str, ObjectError> {
        if let Some(shown) = shown {
            return Ok(shown);
        }
        if let Some(object) = self.decoded() {
            return Ok(of(object));
        }
        match self.glance() {
            Some(glance) => Ok(place(glance).text(self.raw())),
            None => self.object().map(of),
        }
    }

    /// Whether the object belongs to others.
    pub fn has_owners(&self) -> Result<bool, ObjectError> {
        match self.glance() {
            Some(glance) => Ok(glance.has_owners),
            None => self.object().map(Object::has_owners),
        }
    }

    /// Whether the object waits for its finalizers to go.
    pub fn is_going(&self) -> Result<bool, ObjectError> {
        match self.glance() {
            Some(glance) => Ok(glance.is_going),
            None => self.object().map(|object| object.deletion_timestamp().is_some()),
        }
    }

    /// The metadata in short, looked over once; `None` where it must be decoded.
    fn glance(&self) -> Option<&Glance> {
        let look = || splice::glance(self.kind(), self.raw());
        self.inner.glance.get_or_init(look).as_ref()
    }

    /// What was published of it; nothing else is read.
    pub fn status<T: Message + Default>(&self) -> Result<Option<T>, ObjectError> {
        let Some(number) = self.kind().numbers.status else { return Ok(None) };
        let mut status: Option<T> = None;
        for content in wire::all(self.raw(), &[number]) {
            let merged = status.get_or_insert_default().merge(content);
            merged.map_err(|error| decode_error(self.kind().kind(), &error))?;
        }
        Ok(status)
    }

    /// The text of one label; the others are passed over.
    pub fn label(&self, name: &str) -> Option<&str> {
        let way = [self.kind().numbers.metadata, self.kind().numbers.labels];
        let entries = wire::all(self.raw(), &way);
        entries.into_iter().rev().find_map(|entry| wire::of_entry(entry, name))
    }

    /// The text of one annotation; the others are passed over.
    pub fn annotation(&self, name: &str) -> Option<&str> {
        let way = [self.kind().numbers.metadata, self.kind().numbers.annotations];
        let entries = wire::all(self.raw(), &way);
        entries.into_iter().rev().find_map(|entry| wire::of_entry(entry, name))
    }

    /// Another view of the same object, made once for all who hold this one. All of them must mean
    /// the same view: the first one makes it.
    pub fn view<E>(&self, make: impl FnOnce(&Self) -> Result<Self, E>) -> Result<Self, E> {
        if let Some(view) = self.inner.view.get() {
            return Ok(view.clone());
        }
        let made = make(self)?;
        Ok(self.inner.view.get_or_init(|| made).clone())
    }

    /// The object in another form, written once for all who hold this one.
    pub fn form<E>(
        &self,
        form: &Form,
        make: impl FnOnce() -> Result<Bytes, E>,
    ) -> Result<Bytes, E> {
        // Held while it is made: others who want it then wait for it instead of making it too. A
        // panic in between leaves the list as it was.
        let mut forms = self.inner.forms.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, bytes)) = forms.iter().find(|(known, _)| known == form) {
            return Ok(bytes.clone());
        }
        let made = make()?;
        if forms.len() < FORMS_MAX {
            forms.push((form.clone(), made.clone()));
        }
        Ok(made)
    }
}

impl Inner {
    fn bytes(&self) -> &Bytes {
        match &self.raw {
            Some(raw) if self.shown.is_nothing() => raw,
            raw => self.bytes.get_or_init(|| {
                // What is shown otherwise has a glance, and what has one can be spliced.
                let spliced =
                    raw.as_ref().and_then(|raw| splice::splice(&self.kind, raw, &self.shown));
                let encoded = || self.object.get().map(|object| object.encode().into());
                spliced.or_else(encoded).unwrap_or_default()
            }),
        }
    }
}

impl From<Object> for Encoded {
    fn from(object: Object) -> Self {
        let (shown, bytes, glance, typed, view, forms) = <_>::default();
        let (kind, raw) = (object.kind().clone(), None);
        let object = OnceLock::from(Box::new(object));
        let inner = Inner { kind, raw, object, shown, bytes, glance, typed, view, forms };
        Self { inner: Arc::new(inner) }
    }
}

/// Prints what may be logged: sensitive fields are left out.
impl fmt::Debug for Encoded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.object() {
            Ok(object) => object.fmt(f),
            Err(error) => write!(f, "{error}"),
        }
    }
}
