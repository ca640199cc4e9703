//! What the scheme knows of one kind.
mod fields;

use std::{fmt, sync::Arc};

use orrery_proto::options::v1::{Column as ColumnRules, KindRules, Scale};
use prost_reflect::{FieldDescriptor, MessageDescriptor};

use self::fields::{Fields, has_type_fields};
pub(crate) use self::fields::{ListNumbers, Numbers, Parts};
use crate::{
    docs::field_doc,
    lookup::Step,
    object::Object,
    schema::{self, Element, Scalar, Schema, Shape, WellKnown},
    scheme::RegistrationError,
    violation::Violation,
};

/// Fills in what options cannot express; runs after the declared defaults and must be idempotent.
pub type Defaulter = fn(&mut Object);

/// Checks what options cannot express; the second argument is the stored object on an update.
pub type Validator = fn(&Object, Option<&Object>) -> Vec<Violation>;

/// One kind in one version: its names, its shape and its rules.
pub struct Kind {
    pub(crate) group: String,
    pub(crate) api_version: String,
    pub(crate) name: String,
    pub(crate) list_name: String,
    pub(crate) singular: String,
    pub(crate) rules: KindRules,
    pub(crate) columns: Vec<Column>,
    pub(crate) descriptor: MessageDescriptor,
    pub(crate) list_descriptor: MessageDescriptor,
    pub(crate) list_numbers: ListNumbers,
    pub(crate) numbers: Numbers,
    pub(crate) parts: Parts,
    pub(crate) schema: Schema,
    pub(crate) has_secrets: bool,
    /// Where its spec says with whom an object is shared.
    pub(crate) sharing: Option<u32>,
    /// Where its spec names the version of an object, for kinds whose versions are kept.
    pub(crate) version: Option<u32>,
    pub(crate) defaulters: Vec<Defaulter>,
    pub(crate) validators: Vec<Validator>,
}

/// One column of a table, with its path already resolved.
#[derive(Clone, Debug)]
pub struct Column {
    pub name: String,
    /// Dotted JSON path from the object's root.
    pub path: String,
    pub r#type: ColumnType,
    /// Shown only when a wide table is asked for.
    pub wide: bool,
    /// The comment of the field that is shown.
    pub description: String,
    pub(crate) steps: Vec<Step>,
    /// The numbers of the steps, where objects are found by what the column shows: single texts.
    pub(crate) way: Option<Vec<u32>>,
}

/// How a cell is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    String,
    Integer,
    Boolean,
    /// A point in time, shown as an age.
    Date,
}

impl Kind {
    /// Group with its suffix: `apps.orrery.dev`; or as it stands, when it is somebody else's.
    pub fn group(&self) -> &str {
        &self.group
    }
    /// Version: `v1`.
    pub fn version(&self) -> &str {
        &self.rules.version
    }
    /// Group and version as they stand in a manifest: `apps.orrery.dev/v1`.
    pub fn api_version(&self) -> &str {
        &self.api_version
    }
    /// Name of the kind: `Workload`.
    pub fn kind(&self) -> &str {
        &self.name
    }
    /// Name of a list of the kind: `WorkloadList`.
    pub fn list_kind(&self) -> &str {
        &self.list_name
    }
    /// Name in a path: `workloads`.
    pub fn plural(&self) -> &str {
        &self.rules.plural
    }
    /// The kind in lower case: `workload`.
    pub fn singular(&self) -> &str {
        &self.singular
    }
    /// Other names that the command line takes.
    pub fn short_names(&self) -> &[String] {
        &self.rules.short_names
    }
    /// Groups of kinds that are asked for together.
    pub fn categories(&self) -> &[String] {
        &self.rules.categories
    }
    /// Whether objects of this kind live in no project of their own.
    pub fn cluster_scoped(&self) -> bool {
        self.rules.cluster_scoped
    }
    /// Whether some of its fields are secrets.
    pub fn has_secrets(&self) -> bool {
        self.has_secrets
    }
    /// Whether only the server writes objects of this kind.
    pub fn server_owned(&self) -> bool {
        self.rules.server_owned
    }
    /// Whether programs write objects of this kind as they run, and nobody declares them.
    pub fn recorded(&self) -> bool {
        self.rules.recorded
    }
    /// Whether others than the server write objects of this kind.
    pub fn writable(&self) -> bool {
        !self.rules.server_owned || self.rules.recorded
    }
    /// Whether this is a stored form that no API serves.
    pub fn internal(&self) -> bool {
        self.rules.internal
    }
    /// Whether a change is written back to git at once.
    pub fn written_back_at_once(&self) -> bool {
        self.rules.written_back_at_once
    }
    /// Whether files can be kept with an object of this kind.
    pub fn has_artifacts(&self) -> bool {
        self.rules.artifacts
    }
    /// Whether copies of an object run somewhere: they write a log, and commands run beside them.
    pub fn runs(&self) -> bool {
        self.rules.runs
    }
    /// Which fields say how many copies there should be and are, for kinds that can be scaled.
    pub fn scale(&self) -> Option<&Scale> {
        self.rules.scale.as_ref()
    }
    /// What a table shows, after the name and before the age.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }
    pub fn has_spec(&self) -> bool {
        self.numbers.spec.is_some()
    }
    pub fn has_status(&self) -> bool {
        self.numbers.status.is_some()
    }
    pub fn descriptor(&self) -> &MessageDescriptor {
        &self.descriptor
    }
    pub fn list_descriptor(&self) -> &MessageDescriptor {
        &self.list_descriptor
    }
    /// Full message name of the hub version, when this kind is a spoke of it.
    pub fn spoke_of(&self) -> Option<&str> {
        (!self.rules.spoke_of.is_empty()).then_some(self.rules.spoke_of.as_str())
    }
    /// Full name of the message: `orrery.apps.v1.Workload`.
    pub fn full_name(&self) -> &str {
        self.descriptor.full_name()
    }
    /// Fields, rules and comments, for everything that is generated from a definition.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }
    /// The name that error texts of the Kubernetes dialect use: `workloads.apps.orrery.dev`.
    pub fn qualified_plural(&self) -> String {
        format!("{}.{}", self.rules.plural, self.group)
    }

    /// Reads a kind from its definition.
    pub(crate) fn build(
        descriptor: &MessageDescriptor,
        rules: KindRules,
        suffix: &str,
    ) -> Result<Self, Vec<RegistrationError>> {
        let schema = schema::build(descriptor)?;
        let mut all = schema.messages.iter().flat_map(|message| &message.fields);
        let has_secrets = all.any(|field| field.rules.sensitive);
        let refuse = |problem| vec![definition_error(descriptor, problem)];
        let list_descriptor = find_list(descriptor).map_err(refuse)?;
        let fields = Fields::find(descriptor).map_err(refuse)?;
        let numbers = fields.numbers().map_err(refuse)?;
        let parts = fields.parts(&schema).map_err(refuse)?;
        check_names(&rules).map_err(refuse)?;
        rules.scale.iter().try_for_each(|scale| check_scale(scale, &schema)).map_err(refuse)?;
        let sharing =
            crate::sharing::find(fields.spec.as_ref(), rules.cluster_scoped).map_err(refuse)?;
        let version = crate::version::find(fields.spec.as_ref(), &rules).map_err(refuse)?;
        let columns = rules.columns.iter().map(|column| Column::build(column, &schema));
        let columns = columns.collect::<Result<_, _>>().map_err(refuse)?;
        let group = match rules.literal_group {
            true => rules.group.clone(),
            false => format!("{}.{suffix}", rules.group),
        };
        Ok(Self {
            api_version: format!("{group}/{}", rules.version),
            group,
            name: descriptor.name().to_owned(),
            list_name: list_descriptor.name().to_owned(),
            singular: descriptor.name().to_lowercase(),
            rules,
            columns,
            descriptor: descriptor.clone(),
            list_numbers: ListNumbers::of(&list_descriptor).map_err(refuse)?,
            list_descriptor,
            numbers,
            parts,
            schema,
            has_secrets,
            sharing,
            version,
            defaulters: Vec::new(),
            validators: Vec::new(),
        })
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kind({} {})", self.api_version, self.name)
    }
}

/// Two kinds are the same when they were registered from the same message.
impl PartialEq for Kind {
    fn eq(&self, other: &Self) -> bool {
        self.full_name() == other.full_name() && self.api_version == other.api_version
    }
}
impl Eq for Kind {}

/// Objects hold their kind in an `Arc`; most comparisons end at the pointer.
pub(crate) fn same_kind(a: &Arc<Kind>, b: &Arc<Kind>) -> bool {
    Arc::ptr_eq(a, b) || a == b
}

fn definition_error(descriptor: &MessageDescriptor, problem: String) -> RegistrationError {
    RegistrationError::Definition { place: descriptor.full_name().to_owned(), problem }
}

/// The list type stands beside the kind: `Workload` and `WorkloadList`.
fn find_list(descriptor: &MessageDescriptor) -> Result<MessageDescriptor, String> {
    let name = format!("{}List", descriptor.full_name());
    let Some(list) = descriptor.parent_pool().get_message_by_name(&name) else {
        return Err(format!("its list type {name} is missing"));
    };
    let items = list.get_field_by_name("items").filter(FieldDescriptor::is_list);
    let of_this_kind = items.is_some_and(|items| items.kind().as_message() == Some(descriptor));
    let metadata = list.get_field_by_name("metadata").map(|field| field.kind());
    let has_metadata = metadata.is_some_and(|kind| {
        kind.as_message().is_some_and(|m| m.full_name() == "orrery.meta.v1.ListMeta")
    });
    if !of_this_kind || !has_metadata || !has_type_fields(&list) {
        return Err(format!(
            "{name} must have apiVersion, kind, metadata (ListMeta) and items of the kind"
        ));
    }
    Ok(list)
}

fn check_names(rules: &KindRules) -> Result<(), String> {
    if rules.literal_group && !rules.group.split('.').all(crate::validate::is_name) {
        return Err(format!("group {:?} must be a lower-case DNS name", rules.group));
    }
    let group = (!rules.literal_group).then_some(("group", &rules.group));
    let others = [("version", &rules.version), ("plural", &rules.plural)];
    for (what, value) in group.into_iter().chain(others) {
        if !crate::validate::is_name(value) {
            return Err(format!("{what} {value:?} must be a lower-case DNS label"));
        }
    }
    Ok(())
}

/// Both are whole numbers that can be reached without going through a list.
fn check_scale(scale: &Scale, schema: &Schema) -> Result<(), String> {
    for path in [&scale.spec_path, &scale.status_path] {
        let field = schema.field(path).ok_or_else(|| format!("scale: there is no field {path}"))?;
        if !ColumnType::Integer.fits(field.shape) || crate::lookup::steps(schema, path).is_none() {
            return Err(format!("scale: {path} is not a whole number of its own"));
        }
    }
    Ok(())
}

impl Column {
    fn build(rules: &ColumnRules, schema: &Schema) -> Result<Self, String> {
        let path = &rules.path;
        let field = schema
            .field(path)
            .ok_or_else(|| format!("column {:?}: there is no field {path}", rules.name))?;
        let r#type = match rules.r#type.as_str() {
            "string" => ColumnType::String,
            "integer" => ColumnType::Integer,
            "boolean" => ColumnType::Boolean,
            "date" => ColumnType::Date,
            other => return Err(format!("column {:?}: unknown type {other:?}", rules.name)),
        };
        if !r#type.fits(field.shape) {
            return Err(format!("column {:?}: {path} is not a {}", rules.name, rules.r#type));
        }
        let steps = crate::lookup::steps(schema, path)
            .ok_or_else(|| format!("column {:?}: {path} goes through a list", rules.name))?;
        let is_text = field.shape == Shape::Single(Element::Scalar(Scalar::String));
        let way = is_text.then(|| steps.iter().map(|step| step.number).collect());
        let description = field_doc(&field.descriptor);
        Ok(Self {
            name: rules.name.clone(),
            path: path.clone(),
            r#type,
            wide: rules.wide,
            description,
            steps,
            way,
        })
    }
}

impl ColumnType {
    fn fits(self, shape: Shape) -> bool {
        let integers = [Scalar::Int32, Scalar::Int64, Scalar::Uint32, Scalar::Uint64];
        match self {
            Self::String => matches!(shape.element(), Element::Scalar(_)),
            Self::Integer => {
                matches!(shape, Shape::Single(Element::Scalar(s)) if integers.contains(&s))
            }
            Self::Boolean => shape == Shape::Single(Element::Scalar(Scalar::Bool)),
            Self::Date => shape == Shape::Single(Element::WellKnown(WellKnown::Timestamp)),
        }
    }

    /// The name in the Kubernetes dialect.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Integer => "integer",
            Self::Boolean => "boolean",
            Self::Date => "date",
        }
    }
}
