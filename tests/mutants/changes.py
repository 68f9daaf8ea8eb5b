"""What can be changed in a module, and the module with one of these changes."""

import ast
import difflib
from collections.abc import Iterator
from dataclasses import dataclass

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.operator import Operator
from cosmic_ray.operators.provider import OperatorProvider
from mutants.own_operators import NegateFilter, SwapMembership, SwapName

# cosmic-ray would put each of eleven other operators for a `+`: these are what a slip of the pen may put. Most mutants
# would else be about arithmetic, and fall at once.
_BINARY = "Add_Sub Sub_Add Mul_Div Div_Mul FloorDiv_Mul Mod_FloorDiv Pow_Mul BitOr_BitAnd BitAnd_BitOr BitXor_BitOr"
_SHIFTS = "RShift_LShift LShift_RShift"
_COMPARED = "Lt_LtE Lt_GtE LtE_Lt LtE_Gt Gt_GtE Gt_LtE GtE_Gt GtE_Lt Eq_NotEq NotEq_Eq Is_IsNot IsNot_Is"
_UNARY = "Delete_USub Delete_Not Delete_Invert"
_OTHERS = (
    "AddNot ReplaceTrueWithFalse ReplaceFalseWithTrue ReplaceAndWithOr ReplaceOrWithAnd "
    "ReplaceBreakWithContinue ReplaceContinueWithBreak NumberReplacer ZeroIterationForLoop"
)


def _operators() -> dict[str, Operator]:
    names = [
        *(f"ReplaceBinaryOperator_{pair}" for pair in (_BINARY + " " + _SHIFTS).split()),
        *(f"ReplaceComparisonOperator_{pair}" for pair in _COMPARED.split()),
        *(f"ReplaceUnaryOperator_{pair}" for pair in _UNARY.split()),
        *_OTHERS.split(),
    ]
    known = OperatorProvider()
    own = {kind.__name__: kind() for kind in (SwapMembership, SwapName, NegateFilter)}
    return {name: known[name]() for name in names} | own


_OPERATORS = _operators()


@dataclass(frozen=True)
class Change:
    """One change of a module: where an operator applies for the so manieth time, from 0."""

    operator: str
    occurrence: int
    line: int


@dataclass(frozen=True)
class Mutant:
    """A module with one change."""

    module: str
    line: int
    source: str
    was: str
    """The lines that differ, without indentation."""
    becomes: str


def changes(source: str) -> list[Change]:
    """All of them, those without an effect too."""
    nodes = list(ast_nodes(get_ast(source)))
    found = []
    for name, operator in _OPERATORS.items():
        positions = (position for node in nodes for position in operator.mutation_positions(node))
        found += [Change(name, number, start[0]) for number, (start, _) in enumerate(positions)]
    return found


def mutant(module: str, source: str, change: Change) -> Mutant | None:
    """The module with that change; None where it is no Python, or says the same (annotations are nothing but words)."""
    changed = mutate_code(source, _OPERATORS[change.operator], change.occurrence)
    try:
        if changed is None or _meaning(changed) == _meaning(source):
            return None
    except SyntaxError:
        return None
    was, becomes = _difference(source, changed)
    return Mutant(module, change.line, changed, was, becomes)


def _difference(source: str, changed: str) -> tuple[str, str]:
    lines = list(difflib.ndiff(source.splitlines(), changed.splitlines()))
    was, becomes = ([line[2:].strip() for line in lines if line.startswith(sign)] for sign in ("- ", "+ "))
    return "\n".join(was), "\n".join(becomes)


def _meaning(source: str) -> str:
    return ast.dump(_WithoutWords().visit(ast.parse(source)))


class _WithoutWords(ast.NodeTransformer):
    """Leaves out annotations, how arguments may be given, and whether a class is frozen: nobody writes to them."""

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.decorator_list = []
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.annotation = ast.Constant(value=None)
        return self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_arguments(self, node: ast.arguments) -> ast.AST:
        given = [*node.posonlyargs, *node.args, *node.kwonlyargs]
        defaults = [*node.defaults, *(default for default in node.kw_defaults if default)]
        plain = ast.arguments(posonlyargs=[], args=given, kwonlyargs=[], kw_defaults=[], defaults=defaults)
        plain.vararg, plain.kwarg = node.vararg, node.kwarg
        return self.generic_visit(plain)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node


def mutants(module: str, source: str, order: list[Change]) -> Iterator[Mutant]:
    """The mutants of these changes, made one by one."""
    for change in order:
        if made := mutant(module, source, change):
            yield made
