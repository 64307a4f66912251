//! Reads the directives of a text into a typed [`Block`]: the table of supported directives.

use sluice_config::directives::Instruction;

use super::block::Block;
use super::context::{DirectiveContext, SnippetContext};
use super::fault::{Fault, Untranslated};
use super::grammar::{self, Directive};
use super::variables::Declared;
use super::{access, condition, headers, input, limits, program, settings, substitution};
use crate::translate::value::Author;

/// Translates a text of this author that is pasted into `place`.
///
/// # Errors
/// The first directive that nginx would refuse there, or that Sluice does not support.
pub(super) fn read(text: &str, place: SnippetContext, author: &Author<'_>) -> Result<Block, Untranslated> {
    let directives = grammar::parse(text)?;
    let mut declared = program::declared(&directives, author.http);
    if place == SnippetContext::Authorisation {
        declared.share(author.variables);
    }
    let mut reader = Reader { declared };
    reader.block(&directives, DirectiveContext { place, in_if: false })
}

/// State of the translation of one text.
pub(super) struct Reader {
    pub(super) declared: Declared,
}

impl Reader {
    pub(super) fn block(
        &mut self,
        directives: &[Directive],
        context: DirectiveContext,
    ) -> Result<Block, Untranslated> {
        let mut block = Block::default();
        for directive in directives {
            self.directive(directive, context, &mut block)?;
        }
        Ok(block)
    }

    fn directive(
        &mut self,
        directive: &Directive,
        context: DirectiveContext,
        block: &mut Block,
    ) -> Result<(), Untranslated> {
        let Directive { name, arguments, line, block: inner } = directive;
        let fail = |fault| directive.fault(fault);
        if let Some(inner) = inner {
            return match (&**name, context.in_if) {
                ("if", false) if context.place != SnippetContext::Authorisation => {
                    let condition = condition::read(arguments, &self.declared).map_err(fail)?;
                    let then = self.block(inner, DirectiveContext { in_if: true, ..context })?;
                    block.lines.push(format!("line {line}: if: {}", arguments.join(" ")));
                    block.lines.extend(then.lines.iter().cloned());
                    let scope = match context.place {
                        SnippetContext::Server => None,
                        SnippetContext::Location | SnippetContext::Block | SnippetContext::Authorisation => {
                            block.conditional.push(Block {
                                program: Vec::new(),
                                lines: Vec::new(),
                                ..then.clone()
                            });
                            u16::try_from(block.conditional.len()).ok()
                        }
                    };
                    block.program.push(Instruction::If { condition, scope, then: then.program });
                    Ok(())
                }
                ("location", false) if context.place == SnippetContext::Server => {
                    let matches = program::location_match(arguments, &self.declared).map_err(fail)?;
                    let location =
                        self.block(inner, DirectiveContext { place: SnippetContext::Block, in_if: false })?;
                    block.lines.push(format!("line {line}: location: {}", arguments.join(" ")));
                    block.lines.extend(location.lines.iter().cloned());
                    block.locations.push((matches, Block { lines: Vec::new(), ..location }));
                    Ok(())
                }
                ("if" | "location", _) => Err(fail(context.not_permitted())),
                _ => Err(fail(unsupported(name))),
            };
        }
        let line_of = |text: String| format!("line {line}: {name}: {text}");
        let translated = match &**name {
            "set" | "rewrite" | "return" | "break" if context.place != SnippetContext::Authorisation => {
                program::read(name, arguments, &self.declared, context, block)
            }
            "auth_request_set" => program::authorised(arguments, context, block),
            _ if context.place == SnippetContext::Authorisation
                && !matches!(&**name, "proxy_set_header" | "grpc_set_header") =>
            {
                Err(context.not_translated())
            }
            _ if context.is_server_if() => Err(context.not_permitted()),
            "more_set_headers" | "more_clear_headers" | "add_header" | "proxy_hide_header"
            | "grpc_hide_header" | "proxy_pass_header" | "grpc_pass_header" | "default_type" | "expires" => {
                headers::read(name, arguments, &self.declared, context, block)
            }
            "more_set_input_headers"
            | "more_clear_input_headers"
            | "proxy_set_header"
            | "grpc_set_header" => input::read(name, arguments, &self.declared, context, block),
            "allow" | "deny" => access::read(name, arguments, context, block),
            _ if limits::is_known(name) => {
                limits::read(name, arguments, &self.declared, context, &mut block.limits)
            }
            _ if substitution::is_known(name) => {
                substitution::read(name, arguments, &self.declared, context, &mut block.substitution)
            }
            _ if settings::is_known(name) => settings::read(name, arguments, context, &mut block.settings),
            _ => Err(unsupported(name)),
        };
        block.lines.push(line_of(translated.map_err(fail)?));
        Ok(())
    }
}

/// The fault of a directive outside of the subset, with the setting that replaces it.
fn unsupported(name: &str) -> Fault {
    const REPLACEMENTS: &[(&str, &str)] = &[
        ("auth_basic", "the annotations auth-type and auth-secret"),
        ("auth_request", "the annotation auth-url"),
        ("error_page", "the annotations custom-http-errors and default-backend"),
        ("gzip", "the ConfigMap key use-gzip"),
        ("mirror", "the annotation mirror-target"),
        ("proxy_next_upstream", "the annotation proxy-next-upstream"),
        ("proxy_pass", "a path with a Service (type ExternalName for names outside of the cluster)"),
        ("proxy_redirect", "the annotations proxy-redirect-from and proxy-redirect-to"),
    ];
    Fault::replaced("the directive is not translated", name, REPLACEMENTS)
}
