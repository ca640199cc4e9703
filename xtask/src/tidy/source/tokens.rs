//! The few patterns that are looked for inside of macro calls.

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};

pub enum Pattern {
    /// `.unwrap()`
    Unwrap(Span),
    /// `name!(`, `name![` or `name!{`
    Macro(String, Span),
}

pub fn patterns(tokens: &TokenStream) -> Vec<Pattern> {
    let trees: Vec<TokenTree> = tokens.clone().into_iter().collect();
    let mut found: Vec<Pattern> = trees.windows(3).filter_map(pattern).collect();
    for tree in &trees {
        if let TokenTree::Group(group) = tree {
            found.extend(patterns(&group.stream()));
        }
    }
    found
}

fn pattern(window: &[TokenTree]) -> Option<Pattern> {
    match window {
        [TokenTree::Punct(dot), TokenTree::Ident(name), TokenTree::Group(arguments)]
            if dot.as_char() == '.' && name == "unwrap" && is_empty_call(arguments) =>
        {
            Some(Pattern::Unwrap(name.span()))
        }
        [TokenTree::Ident(name), TokenTree::Punct(mark), TokenTree::Group(_)]
            if mark.as_char() == '!' =>
        {
            Some(Pattern::Macro(name.to_string(), name.span()))
        }
        _ => None,
    }
}

fn is_empty_call(arguments: &proc_macro2::Group) -> bool {
    arguments.delimiter() == Delimiter::Parenthesis && arguments.stream().is_empty()
}
