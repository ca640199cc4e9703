//! Rules on Rust code, by its syntax tree.
//!
//! ```text
//!   file --syn--> items --Visitor--> functions, calls, attributes --> findings
//!                              \--> macro bodies, token by token
//! ```
//!
//! The inside of a macro call is no syntax tree, so the few patterns that matter there (`.unwrap()`,
//! nested macros) are looked for among its tokens.

mod context;
mod tokens;

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use self::context::Context;
use super::Finding;
use crate::workspace::SourceFile;

/// What fits on a screen, with its signature.
const FUNCTION_LINES_MAX: usize = 70;

const PRINTS: [&str; 4] = ["println", "eprintln", "print", "eprint"];
const UNFINISHED: [&str; 3] = [concat!("to", "do"), "unimplemented", concat!("db", "g")];

pub fn check(file: &SourceFile) -> Vec<Finding> {
    match syn::parse_file(&file.text) {
        Ok(tree) => {
            let mut visitor = Visitor { file, context: Context::of(file), found: Vec::new() };
            visitor.visit_file(&tree);
            visitor.found
        }
        Err(error) => {
            let line = error.span().start().line;
            vec![Finding::new(&file.path, line, "syntax", format!("it does not parse: {error}"))]
        }
    }
}

struct Visitor<'a> {
    file: &'a SourceFile,
    context: Context,
    found: Vec<Finding>,
}

impl Visitor<'_> {
    fn report(&mut self, span: Span, rule: &'static str, advice: impl Into<String>) {
        self.found.push(Finding::new(&self.file.path, span.start().line, rule, advice));
    }

    /// Visits what is inside of an item, knowing whether its attributes make it a test.
    fn inside(&mut self, attributes: &[syn::Attribute], visit: impl FnOnce(&mut Self)) {
        let outer = self.context.in_test;
        self.context.in_test |= attributes.iter().any(context::marks_test);
        visit(self);
        self.context.in_test = outer;
    }

    fn function(&mut self, name: &syn::Ident, whole: Span) {
        let lines = whole.end().line + 1 - whole.start().line;
        if FUNCTION_LINES_MAX < lines {
            let advice =
                format!("{name} has {lines} lines, at most {FUNCTION_LINES_MAX}: split it");
            self.report(name.span(), "function-size", advice);
        }
    }

    fn unwrap(&mut self, span: Span) {
        if !self.context.in_test {
            let advice = "return the error, or use expect with the reason why it cannot happen";
            self.report(span, "unwrap", advice);
        }
    }

    fn macro_call(&mut self, name: &str, span: Span) {
        if UNFINISHED.contains(&name) {
            self.report(span, "leftover", format!("finish what {name}! stands for"));
        }
        if PRINTS.contains(&name) && !self.context.may_print() {
            self.report(
                span,
                "print",
                format!("use tracing instead of {name}!, or move it to cli"),
            );
        }
    }

    fn call(&mut self, path: &syn::Path) {
        let segments: Vec<String> =
            path.segments.iter().map(|part| part.ident.to_string()).collect();
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        match segments.as_slice() {
            [.., "process", "exit"] if !self.context.may_exit() => {
                self.report(path.span(), "exit", "return an error; only cli decides exit codes");
            }
            ["tokio", "spawn"] | [.., "task", "spawn"] if !self.context.in_test => {
                let advice = "give the task an owner: JoinSet, TaskTracker or the runtime's tasks";
                self.report(path.span(), "naked-spawn", advice);
            }
            _ => {}
        }
    }
}

impl<'ast> Visit<'ast> for Visitor<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        self.inside(&item.attrs, |visitor| visit::visit_item_mod(visitor, item));
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        self.inside(&item.attrs, |visitor| visit::visit_item_impl(visitor, item));
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        let whole = item.sig.span().join(item.block.span()).unwrap_or_else(|| item.span());
        self.function(&item.sig.ident, whole);
        self.inside(&item.attrs, |visitor| visit::visit_item_fn(visitor, item));
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        let whole = item.sig.span().join(item.block.span()).unwrap_or_else(|| item.span());
        self.function(&item.sig.ident, whole);
        self.inside(&item.attrs, |visitor| visit::visit_impl_item_fn(visitor, item));
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        self.function(&item.sig.ident, item.span());
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        if attribute.path().is_ident("ignore") {
            let advice = "a test that does not run proves nothing: run it, or make it a soak suite";
            self.report(attribute.span(), "ignored-test", advice);
        }
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        if call.method == "unwrap" && call.args.is_empty() {
            self.unwrap(call.method.span());
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        if let syn::Expr::Path(function) = &*call.func {
            self.call(&function.path);
        }
        visit::visit_expr_call(self, call);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        if let Some(name) = call.path.segments.last() {
            self.macro_call(&name.ident.to_string(), call.span());
        }
        for pattern in tokens::patterns(&call.tokens) {
            match pattern {
                tokens::Pattern::Unwrap(span) => self.unwrap(span),
                tokens::Pattern::Macro(name, span) => self.macro_call(&name, span),
            }
        }
    }
}

#[cfg(test)]
mod tests;
