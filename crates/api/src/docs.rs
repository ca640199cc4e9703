//! The comments of a definition: what `explain`, OpenAPI and the reference print.
use prost_reflect::{FieldDescriptor, MessageDescriptor, prost_types::FileDescriptorProto};

/// The comment above a message, one paragraph per line, or empty text.
pub fn message_doc(message: &MessageDescriptor) -> String {
    leading_comment(message.parent_file_descriptor_proto(), message.path())
}

/// The comment above a field, one paragraph per line, or empty text.
pub fn field_doc(field: &FieldDescriptor) -> String {
    leading_comment(field.parent_message().parent_file_descriptor_proto(), field.path())
}

fn leading_comment(file: &FileDescriptorProto, path: &[i32]) -> String {
    let Some(source) = &file.source_code_info else { return String::new() };
    let location = source.location.iter().find(|location| location.path == path);
    location.map(|found| join_lines(found.leading_comments())).unwrap_or_default()
}

/// Lines of one paragraph are joined; an empty line starts the next.
fn join_lines(comment: &str) -> String {
    let mut paragraphs: Vec<String> = vec![String::new()];
    for line in comment.lines().map(str::trim) {
        match paragraphs.last_mut() {
            Some(last) if !line.is_empty() => {
                if !last.is_empty() {
                    last.push(' ');
                }
                last.push_str(line);
            }
            Some(last) if last.is_empty() => {}
            Some(_) | None => paragraphs.push(String::new()),
        }
    }
    paragraphs.retain(|paragraph| !paragraph.is_empty());
    paragraphs.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_join_to_paragraphs() {
        assert_eq!(join_lines(" One\n sentence.\n\n Two.\n"), "One sentence.\nTwo.");
        assert_eq!(join_lines(""), "");
    }
}
