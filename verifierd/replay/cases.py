"""What certification tries: file trees, and command lines made of options, operands and programs.

In a template, `{f}` and the like stand for something in the tree (see `bindings`), `{N}` for a small number, `{W}` for
a word that occurs in files. Everything is drawn from one seeded generator.
"""

import itertools
import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

__all__ = ("Case", "cases", "tree")

WORDS = [
    "amber",
    "birch",
    "cobalt",
    "delta",
    "ember",
    "fjord",
    "granite",
    "harbor",
    "indigo",
    "jasper",
    "kelp",
    "lumen",
]
NAMES = ["notes", "main", "data-1", "report_2", "Index", "config", "a1", "zeta", "util.test", "x"]
SUFFIXES = [".txt", ".py", ".md", ".log", "", ".cfg"]
FOLDERS = ["src", "docs", "lib-2", "Assets", "pkg", "t_1"]


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to try: a command in a tree (paths with their text; None is a directory, `-> x` a link to x)."""

    command: str
    tree: Mapping[str, str | None]


def _lines(rng: random.Random, count: int) -> list[str]:
    forms: list[Callable[[], str]] = [
        lambda: " ".join(rng.choices(WORDS, k=rng.randint(1, 5))),
        lambda: f"{rng.choice(['INFO', 'WARN', 'ERROR'])} {rng.choice(WORDS)} code={rng.randint(1, 999)}",
        lambda: f"{rng.choice(WORDS)} = {rng.randint(0, 99)}",
        lambda: f"    return {rng.choice(WORDS)}({rng.randint(0, 9)}, 'x')  # TODO {rng.choice(WORDS)}",
        lambda: f"def {rng.choice(WORDS)}_{rng.randint(1, 9)}(x):",
        lambda: f"{rng.choice(WORDS).title()}: {rng.choice(WORDS)}@{rng.choice(WORDS)}.org",
        lambda: "",
        lambda: f"{rng.choice(WORDS)}\t{rng.randint(1, 50)}\t{rng.choice(WORDS)}",
        lambda: f"v{rng.randint(0, 3)}.{rng.randint(0, 20)}.{rng.randint(0, 9)}-{rng.choice(WORDS)}",
    ]
    return [rng.choice(forms)() for _ in range(count)]


def tree(rng: random.Random) -> tuple[dict[str, str | None], dict[str, str]]:
    """A file tree, and what the letters of templates stand for in it."""
    stems = rng.sample(NAMES, 9)
    names = [stem + rng.choice(SUFFIXES) for stem in stems]
    folders = rng.sample(FOLDERS, 3)
    words = [rng.choice(WORDS) for _ in range(rng.randint(6, 14))]
    keyed = sorted({f"{rng.choice(WORDS)} {rng.randint(1, 9)}" for _ in range(7)})
    other = sorted({f"{rng.choice(WORDS)} {rng.randint(1, 9)}" for _ in range(7)})
    rows = ["name,age,city"] + [f"{w},{rng.randint(18, 80)},{rng.choice(WORDS)}" for w in rng.sample(WORDS, 6)]
    thing = {
        "name": rng.choice(WORDS),
        "count": rng.randint(0, 20),
        "ok": rng.random() < 0.5,
        "tags": rng.sample(WORDS, 3),
        "items": [{"id": i, "kind": rng.choice(["a", "b"]), "price": rng.choice([1, 2.5, 10])} for i in range(1, 4)],
        "nested": {"key": {"deep": rng.choice(WORDS)}},
    }
    spaced = f"{rng.choice(WORDS)} {rng.choice(WORDS)}.txt"
    found: dict[str, str | None] = {}

    def put(name: str, lines: Sequence[str], end: str = "\n") -> str:
        found[name] = "\n".join(lines) + (end if lines else "")
        return name

    letters = {
        "f": put(names[0], _lines(rng, rng.randint(3, 9))),
        "g": put(names[1], _lines(rng, rng.randint(2, 6))),
        "e": put("empty" + rng.choice(SUFFIXES), []),
        "n": put(names[2], _lines(rng, rng.randint(1, 3)) + [rng.choice(WORDS)], ""),
        "l": put(names[3], [str(i) for i in range(1, rng.randint(60, 140))]),
        "w": put(names[4], words),
        "u": put(names[5], [str(rng.randint(-20, 300)) for _ in range(8)]),
        "c": put(names[6], rows),
        "s": put(names[7], keyed),
        "t": put(names[8], other),
        "j": put("doc.json", [json.dumps(thing, indent=rng.choice([None, 2]))]),
        "o": put(spaced, _lines(rng, 3)),
        "d": folders[0],
        "D": folders[1],
        "k": folders[2],
        "m": "missing" + rng.choice(SUFFIXES),
        "M": "nowhere",
        "W": rng.choice(WORDS),
        "V": rng.choice(WORDS),
    }
    letters["x"] = put(f"{folders[0]}/{rng.choice(NAMES)}.txt", _lines(rng, 4))
    put(f"{folders[0]}/b.py", _lines(rng, 3))
    put(f"{folders[0]}/deep/C.md", _lines(rng, 2))
    put(f"{folders[1]}/one.txt", _lines(rng, 2))
    found[folders[2]] = None
    letters["y"] = f"{letters['M']}/{rng.choice(NAMES)}"
    letters["z"] = f"{letters['f']}/inner"
    letters["o"] = f"'{spaced}'"
    return found, letters


# Operands of commands that read files: one, several, and by standard input.
_ONE = ["{f}", "{g}", "{e}", "{n}", "{l}", "{x}", "./{f}", "{o}", "{d}/b.py", "{w}", "{m}", "{y}", "{z}", "{d}"]
_MANY = ["{f} {g}", "{e} {x} {n}", "{n} {f} {u} {w}", "{d}/*.*", "{f} {f}", "{m} {M}"]
_INPUT = ["< {f}", "< {n}", "< {e}", "< {l}"]
_PIPED = ["cat {f} |", "cat {w} |", "printf 'one\\ntwo three' |", "cat {e} |", "seq {N} |", "head -n 3 {l} |"]

# Commands that read files: the options, joined to sets by `,`; a number says how many of `more` are combined with each
# other.
_READERS: Mapping[str, tuple[Sequence[str], Sequence[str]]] = {
    "cat": (["", "-n", "-A", "-b", "-s", "-E", "-T", "-e", "-t", "-v", "-n -s", "-b -s", "-n -E"], []),
    "head": (["", "-n {N}", "-{N}", "-c {N}", "-n -{N}", "-q -n {N}", "-v", "-c -{N}", "-n 0", "-n 100"], []),
    "tail": (["", "-n {N}", "-{N}", "-c {N}", "-n +{N}", "-q -n {N}", "-v", "-c +{N}", "-n 0", "-n 100"], []),
    "wc": ([""], ["-l", "-w", "-c", "-m", "-L"]),
    "nl": (["", "-b a", "-b t", "-n ln", "-w {N}", "-s :"], []),
    "tac": ([""], []),
    "rev": ([""], []),
    "sort": (
        ["", "-k 1,1", "-k 2", "-k 2,2 -n", "-k 1,1 -k 2,2n", "-t , -k 2 -n", "-t , -k 2,2nr", "-t = -k 2n", "-V", "-h", "-s",
         "-t : -k 1,1", "-k 2nr", "-t , -k 3", "-k 2n -r", "-u -k 1,1", "-c", "-M", "-R", "-z", "-b"],
        ["-n", "-r", "-u", "-f"],
    ),
    "uniq": (["", "-c", "-d", "-u", "-i", "-c -d", "-D", "-f {N}", "-c -i", "-w {N}"], []),
    "cut": (
        ["-c {N}", "-c 1-{N}", "-c {N}-", "-c 1,3", "-b 1-{N}", "-d , -f {N}", "-d , -f 1,3", "-d ' ' -f 1", "-d ' ' -f 2-",
         "-f 1", "-f 2", "-d = -f 2", "-d : -f 1", "-d , -f 1-2", "-d , -f 2 -s", "-d ' ' -f -2", "-f 1,3", "-d . -f 1",
         "-d _ -f 2", "-d - -f 1", "-d '|' -f 1", "-d @ -f 1", "--complement -d , -f 1", "-d , -f 2 --output-delimiter=:",
         "-c 2-4", "-c -{N}", "-d / -f 2", "-d '\t' -f 2"],
        [],
    ),
    "paste": (["", "-s", "-d ,", "-s -d ,", "-s -d +", "-s -d ' '", "-d :"], []),
    "fold": (["", "-w {N}", "-s -w {N}", "-b -w {N}"], []),
    "expand": (["", "-t {N}", "-i"], []),
    "base64": (["", "-w 0"], []),
    "md5sum": ([""], []),
    "sha256sum": ([""], []),
    "sha1sum": ([""], []),
    "od": (["", "-c", "-A n -t x1"], []),
}  # fmt: skip

_GREP_BASIC = [
    "{W}", "{W}.*", "^{W}", "{W}$", "^$", "code=[0-9]*", "[A-Z]", "[^a-z ]", "e.", "{W}\\|{V}", "\\(a\\|b\\)", "TODO", "x)", "[[:digit:]]",
    "[[:space:]]", "^[[:upper:]]", "\\.", "a\\+", "\\<{W}", "\\b{V}\\b", "o\\{2\\}", "=", "nothinghere", "\\w", "def ", "-", "\\(.\\)\\1",
    "a*", "^ *return", "er$", "{W} {V}", "[0-9]", "return", "import", "\\[", "\\*", "{W}\\?", "\\s", "{W}\\>", "a|b", "(x)",
]  # fmt: skip
_GREP_EXTENDED = [
    "{W}|{V}", "^({W}|{V})", "[0-9]+", "(INFO|WARN)", "colou?r", "a{{1,2}}", "[a-z]{{3}}", "^[A-Z][a-z]+:", "code=[0-9]+$", "(amber|am)", "^$",
    "\\.", "[^ ]+ ", "x\\)", "(ab|a)*", "e.+r", "\\b{W}\\b", "^(def|class) ", "[[:alpha:]]+", "a|", "({W})", "\\w+@\\w+", ".", "^.", "er|ember",
    "TODO|FIXME", "\\bcode\\b", "[a-z]+_[0-9]", "^\\s*return", "=|:", "(.)\\1", "{W}.*{V}|{V}", "\\(", "^[^#]", "v[0-9]+\\.[0-9]+", "(a|b)c?",
]  # fmt: skip
_GREP_FIXED = ["{W}", "code=", "x.", "[", "a*", "(x)", "TODO", "nothinghere", "$", "."]
_GREP_FLAGS = ["-i", "-v", "-n", "-c", "-l", "-o", "-w", "-x", "-q", "-s", "-h", "-H", "-L"]

_SED = [
    "-n '{N}p'", "-n '2,{N}p'", "-n '$p'", "-n '/{W}/p'", "-n '{N},$p'", "-n '/INFO/,/ERROR/p'", "'{N}d'", "'1d'", "'$d'", "'2,{N}d'", "'/{W}/d'", "'/^$/d'",
    "'s/{W}/XX/'", "'s/{W}/XX/g'", "'s/[0-9][0-9]*/N/g'", "'s/^/> /'", "'s/$/;/'", "'s/ *$//'", "'s/^ *//'", "'s/a/b/2'", "'s/{W}/<&>/'", "'s|{W}|a/b|'",
    "'s#=#:#g'", "'s/\\({W}\\)/[\\1]/'", "'s/\\([a-z]*\\) \\([a-z]*\\)/\\2 \\1/'", "-n 's/{W}/Y/p'", "'s/{W}/Y/I'", "'s/{W}/Y/gI'", "'{N}q'", "'y/abc/xyz/'", "-n '='",
    "'/{W}/s/a/A/'", "'/{W}/!d'", "'1s/.*/first/'", "'2a added'", "'2i before'", "'$a last'", "'/{W}/a after'", "'/{W}/i before'", "'2c changed'", "'/{W}/c changed'", "'1i top'",
    "'s/a/1/;s/b/2/'", "-e 's/a/1/' -e 's/b/2/'", "'/{W}/{{s/a/X/;s/e/Y/;}}'", "'/{W}/{{s/a/X/g}}'", "'G'", "'n;d'", "'N;s/\\n/ /'", "-n '$='", "'1!G;h;$!d'", "'s/\\t/ /g'", "'s/ /\\n/'",
    "'1~2d'", "'{N},+1d'", "-n '/{W}/='", "'s/{W}//'", "'s/,/;/g'", "'s/\\./-/'", "'s/\\//-/g'", "'/{W}/,$d'", "'1,/{W}/d'", "'s/x/a\\&b/'", "'5q'", "'$!d'", "'s/.$//'", "'s/a\\|b/Z/g'",
    "'s/[aeiou]//g'", "'s/[^a-z]//g'", "'s/[[:space:]]*$//'", "'s/[[:upper:]]/U/g'", "'s/a.c/Q/'", "'1,3s/a/A/'", "'2s/a/A/g'", "'$s/a/A/'", "'2,$s/e/E/'", "'/a/,/e/s/o/0/g'", "-n '2{{p;q}}'", "'s/\"/Q/g'",
    "'s/a/A/;s/b/B/;s/c/C/'", "'/^#/d;/^$/d'", "'s/\\bcode\\b/CODE/'", "'s/= */=/'", "-n '2,4!p'", "'1d;$d'", "'s/x/y/;2d'", "-n '/{W}/{{=;p}}'", "'s_a_b_'", "'s,a,b,g'", "'s/a*/x/g'", "'s/b*/x/2'",
]  # fmt: skip
_SED_EXTENDED = [
    "'s/[0-9]+/N/g'", "'s/({W})/<\\1>/'", "'s/([a-z]+) ([a-z]+)/\\2 \\1/'", "'s/{W}|{V}/W/g'", "'s/^ +//'", "-n '/[0-9]{{2}}/p'", "'s/(amber|am)/X/'", "'/^(INFO|WARN)/d'", "'s/ +/ /g'", "'s/a?b/Z/'",
    "'s/^(.*)=(.*)$/\\2=\\1/'", "'s/\\s+$//'", "'s/[^,]+,//'", "'s/code=([0-9]+)/c\\1/'", "'s/\\(/[/'", "'s/(a|e)r/R/g'", "'s/[a-z]{{3}}/T/'", "'s/x+/y/I'", "'s/\\./,/g'", "'s/\\w+/W/'",
]  # fmt: skip

_AWK = [
    "'{{print}}'", "'{{print $1}}'", "'{{print $2, $1}}'", "'{{print $NF}}'", "'{{print NR, $0}}'", "'NR=={N}'", "'NR>1'", "'/{W}/'", "'!/{W}/'", "'/{W}/ {{print $1}}'", "'END {{print NR}}'",
    "'{{s+=$2}} END {{print s}}'", "'{{s+=NF}} END {{print s}}'", "'BEGIN {{print \"start\"}} {{print $1}} END {{print \"end\"}}'", "'{{print length($0)}}'", "'length($0) > 10'", "'NF'", "'NF > 2 {{print $2}}'",
    "'$1 == \"{W}\" {{print}}'", "'$1 ~ /^a/ {{print $1}}'", "'$1 !~ /e/'", "'{{print toupper($1)}}'", "'{{print substr($0, 1, 3)}}'", "'{{print substr($1, 2)}}'", "'{{gsub(/a/, \"A\"); print}}'", "'{{sub(/e/, \"E\"); print $0}}'",
    "'{{printf \"%s\\n\", $1}}'", "'{{printf \"%d: %s\\n\", NR, $1}}'", "'{{printf \"%-8s|%4d\\n\", $1, NR}}'", "'{{n=split($0, p, \" \"); print n, p[1]}}'", "'{{print index($0, \"a\")}}'", "'NR>=2 && NR<={N}'", "'NR==1 || NR==3'",
    "'NR%2==0'", "'NR%2'", "'{{c[$1]++}} END {{for (k in c) print k, c[k]}}' | sort", "'{{if (NF > 1) print \"many\"; else print \"one\"}}'", "'{{for (i = NF; i > 0; i--) printf \"%s \", $i; print \"\"}}'", "'{{for(i=1;i<=NF;i++) n++}} END {{print n}}'",
    "'{{$1=\"X\"; print}}'", "'{{$2=\"\"; print $0}}'", "'{{print $1 \"-\" $2}}'", "'{{x = $2 * 2; print x}}'", "'END {{print $0}}'", "'!seen[$0]++'", "'{{print NR\":\"$0}}'", "'BEGIN {{OFS=\"-\"}} {{print $1, $2}}'", "'/INFO/,/ERROR/'",
    "'{{a[NR]=$0}} END {{for (i=NR;i>0;i--) print a[i]}}'", "'{{print tolower($0)}}'", "'{{i=1; while (i <= 2) {{print $i; i++}}}}'", "'NR==2 {{exit}} {{print}}'", "'NR==1 {{next}} {{print}}'", "'BEGIN {{x=5; print x+2, x*3, x-1, x%3}}' < /dev/null",
    "'{{print (NF > 1 ? \"y\" : \"n\")}}'", "'max < NF {{max = NF}} END {{print max}}'", "'match($0, /[0-9]+/) {{print RSTART, RLENGTH}}'", "'{{print int(NF / 2)}}'", "'{{s = s $1}} END {{print s}}'", "'{{t += length($0) + 1}} END {{print t}}'", "'/{W}/ {{n++}} END {{print n+0}}'",
    "'{{printf \"%.2f\\n\", NR / 3}}'", "'{{print NR / 4}}'", "'END {{print NR/3}}'", "'{{print $NF; print NF}}'", "'{{print FILENAME}}'", "'FNR==1 {{print FILENAME}}'", "'{{print FNR, NR}}'", "'$2 > 10'", "'$2 >= 5 {{print $1}}'", "'{{printf \"%5.1f\\n\", NR * 1.5}}'", "'NR==1{{m=NF}} NF>m{{m=NF}} END{{print m}}'",
    "'{{print NR % 3, NR ^ 2}}'", "'{{s=0; for (i=1; i<=NF; i++) s+=i; print s}}'", "'BEGIN{{ORS=\" \"}} {{print $1}}'", "'{{print -NR}}'", "'{{print $1, $2}}' OFS=:", "'{{print sprintf(\"%03d\", NR)}}'", "'{{delete a; a[1]=NR; print a[1]}}'", "'length > 5'", "'{{x[NR % 2] += NF}} END {{print x[0], x[1]}}'",
]  # fmt: skip
_AWK_CSV = ["'{{print $2}}'", "'NR>1 {{s+=$2}} END {{print s}}'", "'NR>1 && $2>40 {{print $1, $2}}'", "'NR>1 {{s+=$2; n++}} END {{printf \"%.2f\\n\", s/n}}'", "'$3 == \"{W}\"'", "'{{print $1\";\"$3}}'", "'NR>1 {{print $3}}'", "'NF==3'", "'{{print NF}}'", "'NR>1 {{if ($2 > m) {{m = $2; w = $1}}}} END {{print w, m}}'", "'END {{print s/NR}}'", "'{{print $NF}}'"]  # fmt: skip

_JQ = [".", ".name", ".count", ".tags", ".tags[]", ".tags[0]", ".tags[-1]", ".items[].id", ".items[0].kind", ".items | length", ".tags | length", "keys", ".nested.key.deep", ".nested", ".items[] | select(.kind == \"a\") | .id", ".items[] | select(.id > 1)",
       ".items | map(.id)", "[.items[].price]", ".items | map(select(.kind == \"b\")) | length", ".name, .count", "{{n: .name, c: .count}}", "{{name, ok}}", ".missing", ".missing // \"none\"", ".ok", ".tags | sort", ".tags | join(\",\")", ".items | map(.price) | add", ".count + 1", "[.tags[] | length]",
       ".items[1:]", ".name | length", ".tags | reverse", "has(\"name\")", "type", ".items[0] | keys", "to_entries", ".items | sort_by(.price)", ".tags | index(\"{W}\")", ".items | first", ".items[] | .id * 2", "del(.items)", ".items | group_by(.kind) | length", ".tags | unique", ".count == 3", ".name | ascii_upcase", ".items | map(.id) | max", ".tags[1:2]", ".items[] | {{id}}", "not", "[.[]] | length", ".items | length > 2"]  # fmt: skip

_PRINTF = ["'%s\\n' {W}", "'%s\\n' {W} {V} x", "'%d\\n' {N}", "'%5d|\\n' {N}", "'%-5d|\\n' {N}", "'%05d\\n' {N}", "'%s %s\\n' {W} {V}", "'%s=%d\\n' {W} {N}", "'hello\\n'", "'a\\tb\\n'", "'%10s|%-10s|\\n' {W} {V}", "'%.2f\\n' 3.14159", "'%x %o\\n' 255 8", "'%c\\n' {W}", "'%%\\n'", "'%s'",
           "'%s\\n' 'two words' {W}", "'line %d\\n' 1 2 3", "'%s,' a b c", "'%.3s\\n' {W}", "'%+d\\n' 5", "'%X\\n' 255", "'%8.3f|\\n' 2.5", "'%s %s\\n' one", "'%q\\n' 'a b'", "'%e\\n' 12345.678", "'%g\\n' 0.5", "\"%s\\n\" \"$HOME\"", "'%-8s|%.3f\\n' {W} 3.14159", "'%i\\n' 7", "'%s\\n' \"\"", "'%03d %s\\n' 1 a 2 b", "'%b\\n' 'a\\tb'", "'[%s]\\n'", "'%5s|\\n' ab", "'a\\\\b\\n'", "'%s\\n' $(echo a b)", "'\\n'", "'%s\\n' *.txt", "'%d items\\n' $((3 + 4))"]  # fmt: skip

_TEST = ["-f {f}", "-f {m}", "-f {d}", "-d {d}", "-d {f}", "-d {m}", "-e {f}", "-e {d}", "-e {m}", "-s {f}", "-s {e}", "-s {m}", "-r {f}", "-w {f}", "-x {f}", "-x {d}", "-L {f}", "-L {m}", "-h {f}", "-z ''", "-z {W}", "-n ''", "-n {W}", "{W} = {V}", "{W} = {W}", "{W} != {V}", "{W} == {W}", "{N} -eq {N}", "3 -lt {N}", "{N} -gt 4", "{N} -le 5", "{N} -ge 5", "{N} -ne 3", "! -f {m}", "! -d {d}", "{W}", "''", "! {W} = {V}", "-f {x}", "-f {y}", "-f {z}", "-e {o}"]  # fmt: skip

_FIND = ["-name '*.txt'", "-name '*.py'", "-type f", "-type d", "-maxdepth 1", "-maxdepth 1 -type f", "-maxdepth 2 -name '*.md'", "-type f -name '*.txt'", "-name '*.py' -o -name '*.md'", "! -name '*.txt'", "-type f ! -name '*.txt'", "-iname 'c.*'", "-path '*/deep/*'", "-mindepth 1", "-mindepth 1 -maxdepth 1", "-empty", "-type f -empty", "-type d -empty", "", "-name 'nothing*'", "-not -name '*.py' -type f",
         "\\( -name '*.py' -o -name '*.txt' \\) -type f", "-name 'b.?y'", "-type f -print", "-type l", "-path './{d}' -o -name '*.md'", "-type f -name 'one.*' -print", "-mindepth 2 -type f", "-name '*.py' -and -type f", "-path '*deep*' -type f", "-type d -name 'd*'", "-iname '*.TXT'", "-not -path '*/deep/*' -type f"]  # fmt: skip

# Whole scripts, for the language and for commands that are not of the forms above.
_SCRIPTS = [
    # files
    *(f"{c} {o}" for c in ("mkdir", "mkdir -p") for o in ("{M}", "{d}", "{f}", "{M}/sub", "{d}/new", "{M} other", "{z}", "{M}/a/b/c", "{d}/deep/er", "a b 'c d'", "{d} {M}", "./{M}/", "{M}/{{a,b}}", "-- {M}")),
    *(f"{c} {o}" for c in ("touch", "rm", "rm -f", "rm -r", "rm -r -f", "rmdir", "rmdir -p") for o in ("{M}", "{f}", "{d}", "{k}", "{f} {g}", "{y}", "{z}", "{x}", "{m} {f}", "{d} {D}", "{o}", "*.txt", "{d}/*", "{d}/deep", "new1 new2", "./{f}")),
    *(f"{c} {o}" for c in ("cp", "mv", "cp -r", "cp -R", "cp -a", "cp -p", "cp -f", "mv -f", "mv -n", "cp -n", "cp -v", "mv -v", "cp -r -p", "cp -u", "cp -i") for o in ("{f} new.txt", "{f} {g}", "{f} {d}", "{f} {d}/", "{m} new", "{d} new", "{d} {D}", "{d} {k}", "{f} {y}/q", "{f} {M}/q", "{f} {g} {d}", "{f} {g} {k}", "{x} .", "{f} {d}/copy.txt", "{f} {m} {d}", "{f} {g} {M}", "{f} {f}", "{d} {f}", "{o} plain.txt", "{d}/*.txt {k}", "{d}/deep {k}", "{f} {z}", "{d} {d}/inner", "{k} {M}", "{d}/. {k}", "{d}/ {M}", "{m}", "{f}")),
    *(f"{c} {o}" for c in ("ln -s", "ln -s -f", "ln") for o in ("{f} link", "{d} link", "{m} link", "{f} {g}", "../{f} {d}/link", "{f} {d}", "{f} {g} {k}")),
    *(f"ln -s {a} link && {b}" for a in ("{f}", "{d}", "{m}") for b in ("cat link", "ls", "ls link", "ls -a link", "readlink link", "readlink -f link", "rm link; ls", "cp link new; ls", "mv link new; readlink new", "[ -L link ] && echo yes", "[ -e link ]; echo $?", "[ -f link ]; echo $?", "[ -d link ]; echo $?", "wc -l link", "grep -c a link", "cat < link", "echo new > link; cat {f}", "stat -c %s link", "realpath link", "find . -type l", "ls -d link", "cd link", "ls link/", "head -n 1 link", "test -h link; echo $?")),
    *(f"ls {a} {b}" for a in ("", "-1", "-a", "-A", "-p", "-F", "-d", "-R", "-r", "-t", "-S", "-l", "-la", "-lh", "-1a", "-i", "-m", "-x", "-1r", "-1A", "-h", "-C", "-1p", "-1F", "-1R", "-aR", "-dF", "-1d") for b in ("", "", "", "", "{d}", "{d}", "{d}", "{f}", "{m}", "{k}", "{D}", "{f} {d}", "{f} {g}", "*.txt", "{d}/", "{x}", "*/", "{m} {f}", "{f} {m}", "*", ".", "{d}/*", "{z}", "{o}", "{y}")),
    *(f"chmod {m} {o}" for m in ("+x", "755", "644", "u+x", "600", "700", "a+x", "664", "-x", "777", "ugo+x", "640") for o in ("{f}", "{f} {g}", "notes.py; cat {f}", "{m}", "{d}", "{o}", "{x}")),
    *(f"chmod {m} {{f}}; stat -c '%a %n' {{f}}" for m in ("+x", "755", "644", "u+x", "600", "700", "a+x", "664", "777")),
    *(f"stat -c {fmt} {o}" for fmt in ("%s", "%n", "%a", "%F", "'%n %s'", "'%a %n'", "'%s %n'", "%A") for o in ("{f}", "{e}", "{d}", "{m}", "{f} {g}", "{x}")),
    *(f"tee {a} {o} < {{f}}" for a in ("", "-a") for o in ("new", "{g}", "new new2", "{y}", "{d}")),
    *(f"echo {{W}} | tee {a} {o}" for a in ("", "-a") for o in ("new", "{g}", "new new2", "{g}; cat {g}", "new > /dev/null; cat new")),
    *(f"split {a} {{l}} {b} && ls" for a in ("-l 20", "-l 33", "-b 40") for b in ("", "part_", "z")),
    *(f"diff {a} {o}" for a in ("", "-q", "-b", "-w", "-i", "-s", "-u") for o in ("{f} {g}", "{s} {t}", "{f} {f}", "{f} {m}", "{e} {f}", "{n} {f}", "{s} {s}", "{w} {u}", "{d} {D}", "{m} {f}", "{t} {s}", "{c} {w}", "{x} {g}")),
    *(f"comm {a} {o}" for a in ("", "-12", "-23", "-13", "-1", "-2", "-3") for o in ("{s} {t}", "{s} {s}", "{e} {s}", "{t} {s}", "{s} {m}", "{t} {e}")),
    *(f"join {a} {o}" for a in ("", "-a 1", "-t ' '", "-1 1 -2 1") for o in ("{s} {t}", "{t} {s}", "{s} {s}", "{e} {s}", "{m} {s}")),
    *(f"cmp {a} {o}" for a in ("", "-s") for o in ("{f} {f}", "{f} {g}", "{e} {f}", "{f} {m}", "{s} {t}")),
    *(f"{c} {o}" for c in ("basename", "dirname") for o in ("{x}", "a/b/c.txt", "/tmp/a/b", "c.txt", "a/b/", "./{f}")),
    "basename a/b/c.txt .txt", "basename {x} .txt", "basename -s .txt a/b.txt", "basename {f} .zzz", "basename -a a/b c/d",
    *(f"{c} {o}" for c in ("readlink -f", "realpath") for o in (".", "{f}", "{d}", "{d}/../{f}", "{m}", "{x}")),
    *(f"tar {a}" for a in ("cf a.tar {d}", "cf a.tar {f} {g} && tar tf a.tar", "cf a.tar {d} && rm -r {d} && tar xf a.tar && ls {d}", "czf a.tgz {d} && tar tzf a.tgz | sort", "cf a.tar {d} && tar tf a.tar | sort", "cf a.tar {d} && tar xf a.tar -C {k} && ls {k}", "-cf a.tar {f}", "-czf a.tgz {f} && rm {f} && tar -xzf a.tgz && cat {f}", "tf {m}", "xf {m}", "cf a.tar {m}", "cf a.tar {f} && tar xf a.tar", "czf a.tgz {d} && mkdir q && tar xzf a.tgz -C q && ls q")),
    *(f"{c} {o}" for c in ("seq", "seq -s ,", "seq -w", "seq -s ' '") for o in ("5", "{N}", "2 6", "1 {N}", "1 2 9", "10 -3 1", "0", "5 1", "-2 2", "8 12", "0 5 20", "1 100")),
    *(f"expr {o}" for o in ("{N} + {N}", "{N} - 3", "{N} '*' 2", "7 / 2", "7 % 3", "5 '>' 3", "2 '<' 1", "3 = 3", "1 + 2 '*' 3", "2 \\* 4", "10 - 2 - 3", "{N} != 3", "0 + 0", "9 / 3 + 1", "4 '>=' 4", "4 '<=' 3")),
    *(f"echo '{o}' | bc" for o in ("{N}+{N}", "2*{N}", "10/3", "scale=2; 10/3", "(1+2)*3", "7-9", "2*3+4", "scale=3; 1/8", "100/7", "{N} + 1", "10 - 3 - 2", "2 * (3 + 4)")),
    "seq 1 {N} | paste -sd+ | bc", "seq {N} | paste -s -d+ | bc", "seq 1 2 {N} | paste -sd+ - | bc", "echo '1.5*2' | bc -l",
    *(f"{p} tr {a}" for p in ("cat {f} |", "echo 'Hello World 42' |", "cat {w} |", "cat {c} |", "printf 'a  b\\tc\\n' |") for a in ("a-z A-Z", "A-Z a-z", "-d aeiou", "-d '\\n'", "-s ' '", "' ' '\\n'", "',' '\\n'", "'[:lower:]' '[:upper:]'", "-d '[:digit:]'", "-c 'a-z\\n' _", "'\\n' ' '", "-d ' '", "-s a-z", "abc xyz", "-cd '0-9\\n'", "'[:upper:]' '[:lower:]'", "-d '[:space:]'", "'\\t' ' '", "a b", "', ' '\\n_'", "-d '[:punct:]'", "-s '\\n'", "a-y b-z", "'a-zA-Z' 'n-za-mN-ZA-M'", "-dc a-z", "-cs a-z '\\n'", "_ -", "/ .", "':' ','", "-d ,")),
    *(f"{p} xargs {a}" for p in ("echo a b c |", "ls {d} |", "printf '%s\\n' {W} {V} |", "find {d} -name '*.txt' | sort |", "cat {e} |") for a in ("", "echo", "-n 1", "-n 2 echo", "-I {{}} echo item {{}}", "echo x", "-n 1 echo n:")),
    *(f"find {{d}} -name '{n}' | sort | xargs {a}" for n in ("*.txt", "*.py", "*.md", "no*") for a in ("cat", "wc -l", "ls", "rm", "head -n 1", "grep -c a", "grep -l e", "touch", "basename -a")),
    *(f"find . -name '{n}' -exec {a} " + r"{{}} \;" for n in ("b.py", "one.txt", "*.md", "no*") for a in ("cat", "rm", "echo", "wc -l", "grep -n a", "basename", "head -n 1", "ls", "chmod +x", "touch", "sed -i s/a/b/", "grep -l e")),
    *(f"find . -name '{n}' -exec {a} " + "{{}} +" for n in ("b.py", "one.txt", "no*") for a in ("cat", "rm", "echo", "wc -l", "ls")),
    "find {d} -name '*.py' -delete", "find . -type f -empty -delete", "find {d} -type f -delete; ls {d}", "find {d} -name '*.py' -type f -delete && ls -R {d}",
    # language
    "pwd", "cd {d} && pwd", "cd {d}; pwd", "cd {d}/deep && pwd", "cd ..; pwd", "cd {d}/..; pwd", "cd {m}", "cd {f}", "cd {d} {D}", "cd; pwd", "cd ~; pwd", "cd {d} && cd - && pwd", "cd .; pwd", "cd {d} && ls", "(cd {d} && ls)", "(cd {d}; pwd); pwd", "cd {d} && cd .. && pwd", "cd ./{d}/deep/.. && pwd", "cd {k} && ls", "cd ~ && pwd && cd -", "cd {y}", "cd {m} && ls", "cd {m} || echo no", "cd -- {d} && pwd", "pwd -P", "cd {d} > /dev/null && pwd", "cd {z}", "cd ../{d}",
    "true", "false", ":", "true; echo $?", "false; echo $?", "false || echo no", "true && echo yes", "false && echo yes", "! true; echo $?", "! false; echo $?", "true || echo no", "false || false; echo $?", "true && false; echo $?", "false; true", "! grep -q {W} {f}; echo $?",
    "echo {W}", "echo", "echo a  b", "echo 'a  b'", "echo \"a  b\"", "echo -n {W}", "echo -n a; echo b", "echo -e 'a\\tb'", "echo -e 'a\\nb'", "echo -e \"x\\\\y\"", "echo 'a\\nb'", "echo -E 'a\\nb'", "echo -ne 'a\\n'", "echo a\\ b", "echo \"a\\\"b\"", "echo 'it'\\''s'", "echo a\\\n  b", "echo $'a\\tb'", "echo $'it\\'s'", "echo \"cost \\$5\"", "echo 5%", "echo a=b", "echo -- a", "echo -x", "echo a#b", "echo a # comment", "# only a comment", "echo hi!", "echo {{}}", "echo a{{b", "echo '*'", "echo \"*\"", "echo \\*", "echo ~", "echo ~/x", "echo \"~\"", "echo a,b", "echo [x]", "echo 'a\"b'", "echo \"it's\"", "echo @ % + = : ^", "echo A=$HOME", "echo é", "echo 'x\ny'", "echo one; echo two", "echo one\necho two", "echo a; echo b # c", "echo a && # c\necho b", "echo a |\ncat", "echo a &&\necho b", "\n\necho a\n\n", "echo a\\\\b",
    *(f"echo {g}" for g in ("*", "*.txt", "{d}/*", "*.nope", "?*", "[a-m]*", "*/*.py", "[!a-m]*", "{d}/*.txt", "*.py *.md", "'*'.txt", "{d}/deep/*", "./*", "*/", "x*", "[xyz]*", "*o*", "[A-Z]*", "[^a-z]*", ".*x", "??", "*.{{txt,py}}")),
    *(f"echo {b}" for b in ("{{a,b,c}}", "x{{1,2}}y", "{{1..5}}", "{{a..e}}", "f{{1..3}}.txt", "{{a,b}}{{1,2}}", "{{5..1}}", "{{1..10..3}}", "pre-{{x,y}}-post", "{{A..C}}", "{{,x}}", "a{{b,}}c", "{{01..03}}")),
    "touch f{{1..3}}.new && ls *.new", "mkdir -p q/{{a,b}} && ls q", "cp {f}{{,.bak}} && ls", "rm -f {{f,g}}.none", "touch {{a,b}}.c; ls *.c",
    "X={N}; echo $X", "X={W}; echo \"$X\"", "X='a  b'; echo $X", "X='a  b'; echo \"$X\"", "X={W}; echo ${{X}}y", "X={W}; echo ${{#X}}", "X={W}; echo ${{X:1:2}}", "X={W}; echo ${{X:2}}", "X={W}; echo ${{X: -2}}", "X={W}; echo ${{X:0:-1}}", "X={W}; echo ${{X^^}} ${{X^}}", "X=ABC; echo ${{X,,}} ${{X,}}", "X=a_b_c; echo ${{X%_*}} ${{X%%_*}} ${{X#*_}} ${{X##*_}}", "X=a.b.c; echo ${{X/./-}} ${{X//./-}}", "X={W}; echo ${{X/a/Z}} ${{X//e/E}}", "X=file.txt; echo ${{X%.txt}}.md", "X=/a/b/c; echo ${{X##*/}} ${{X%/*}}", "X=abcabc; echo ${{X/#a/Z}} ${{X/%c/Z}}", "X=a1b2; echo ${{X//?2/Q}}",
    "echo \"${{nope:-default}}\"", "echo ${{nope:-d}}", "nope=; echo \"${{nope:-empty}}\" \"${{nope-unset}}\"", "echo ${{nope-unset}}", "echo ${{nope:+set}}x", "nope=1; echo ${{nope:+set}}", "nope=1; echo ${{nope+set}}", ": ${{nope:=val}}; echo $nope", "echo ${{nope:=val}} $nope", "echo ${{nope:-$HOME}}", "nope={W}; echo ${{nope:-x}} ${{nope:=y}}", "X={W}; echo \"${{X:-none}} ${{X#a}} ${{X%r}} ${{#X}} ${{X:0:1}} ${{X^^}} ${{X//a/b}}\"", "echo \"[${{nope}}]\" \"[$nope]\"", "X={W}; echo \"${{X}} ${{X%%e*}} ${{X##*e}} ${{X,,}} ${{X^}} ${{X/a/b}} ${{X: -1}} ${{X:1}}\"", "X={W} Y=$X; echo $Y", "X=1; X=$((X + 1)); echo $X", "X=a; X+=b; echo $X", "X=a; X=\"$X c\"; echo \"$X\"", "X=; echo \"[$X]\"", "X=\"\"; echo \"[$X]\"",
    "export A={W}; echo $A", "export A; echo ok", "A=1; export A; echo $A", "export A=1 B=2; echo $A$B", "A=1; unset A; echo \"[$A]\"", "unset nope; echo $?", "readonly R=1; echo $R", "A={W}; B=\"$A-$A\"; echo $B",
    *(f"echo $(({e}))" for e in ("1 + 2", "{N} * 3", "7 / 2", "7 % 3", "2 ** 5", "(1 + 2) * 3", "-5 + 2", "10 - 3 - 2", "1 < 2", "3 == 3", "5 > 6", "1 && 0", "0 || 3", "!1", "5 & 3", "5 | 3", "5 ^ 3", "1 << 4", "16 >> 2", "~0", "3 > 2 ? 10 : 20", "1 != 2", "2 >= 2", "2 <= 1", "010", "0x1F", "1, 2", "-7 / 2", "-7 % 3", "2 ** 10 - 1", "1+2*3", "16 / 3", "100000 * 100000", "2 + 3 * 4 - 1")),
    "i=5; echo $((i + 1)) $((i * i))", "i=5; echo $((i++)) $i", "i=5; echo $((++i)) $i", "i=5; ((i += 3)); echo $i", "i=1; ((i++)); echo $i", "((1 > 2)) || echo no", "((3 > 2)) && echo yes", "i=5; ((i--)); echo $i", "i=2; ((i *= 4)); echo $i", "a=3; b=4; echo $((a * a + b * b)) $(($a + ${{b}}))", "echo $((1 / 0))", "echo $((5 % 0))", "x=7; echo $((x / 0))", "i=5; ((i -= 2)); echo $i", "i=9; ((i /= 2)); echo $i; ((i %= 3)); echo $i", "i=3; i=$((i - 1)); echo $i", "echo $((nope + 1))", "a=5; echo $((a > 3 && a < 9))", "a=2; ((a == 2)); echo $?", "((0)); echo $?",
    "a=(x y z); echo ${{a[0]}} ${{a[2]}}", "a=(x y z); echo ${{#a[@]}} \"${{a[@]}}\"", "a=(x y z); for i in \"${{a[@]}}\"; do echo $i; done", "a=(1 2); a+=(3); echo ${{a[@]}}", "a=(x 'y z'); echo \"${{a[1]}}\"", "a=(x y z); echo ${{a[@]:1}}", "a=(x y); a[1]=q; echo ${{a[@]}}", "a=({W} {V}); echo ${{a[-1]}}", "a=(); echo ${{#a[@]}}", "a=(x y z); echo ${{a[*]}} \"${{a[*]}}\"", "a=($(seq 3)); echo ${{a[1]}}", "a=(*.txt); echo ${{#a[@]}}", "a=(x y z); i=1; echo ${{a[i]}} ${{a[$i]}}", "a=(b c); echo \"${{#a[@]}} ${{a[0]}} ${{a[@]}}\"", "a=(x y z); echo ${{a[@]:1:1}} ${{#a[1]}}", "declare -A m; m[k]=v; echo ${{m[k]}}",
    "for i in 1 2 3; do echo $i; done", "for i in {W} {V}; do echo \"- $i\"; done", "for f in *.txt; do echo $f; done", "for f in *.txt; do wc -l < $f; done", "for f in *.txt; do wc -l < \"$f\"; done", "for i in $(seq {N}); do echo -n \"$i \"; done; echo", "for i in {{1..3}}; do echo $((i * i)); done", "for ((i=0; i<{N}; i++)); do echo $i; done", "for i in 1 2; do for j in a b; do echo $i$j; done; done", "for i in 1 2 3 4; do if [ $i -eq 3 ]; then break; fi; echo $i; done", "for i in 1 2 3; do [ $i = 2 ] && continue; echo $i; done", "for i in 1 2; do echo $i > out_$i; done; cat out_1 out_2", "for i in a b; do touch $i.new; done; ls *.new", "for f in {f} {g}; do cat \"$f\"; done", "for f in {d}/*; do echo \"$f\"; done", "for i in; do echo $i; done", "for i in 1 2\ndo\n  echo $i\ndone", "for i in 3 1 2; do echo $i; done | sort", "for i in 1 2; do echo $i; done > out; cat out", "for w in $(cat {w}); do echo $w; done", "for i in 1 2; do mkdir -p q/$i; done; ls q", "for i in a b; do cat {m}; echo $i; done", "for f in *.py *.md; do basename \"$f\"; done", "for x in \"a b\" c; do echo \"$x\"; done", "for i in $(seq 2); do echo \"item $i\" > it_$i.txt; done; cat it_*.txt; ls it_*", "for i in 1 2 3; do echo $i; done | wc -l", "for f in {d}/*.txt; do head -n 1 \"$f\"; done", "for ((i=3; i>0; i--)); do echo $i; done", "for i in 1 2 3; do echo $i; sleep 0; done",
    "i=0; while [ $i -lt 3 ]; do echo $i; i=$((i+1)); done", "i=3; until [ $i -eq 0 ]; do echo $i; i=$((i - 1)); done", "while read -r l; do echo \"<$l>\"; done < {f}", "while read l; do echo \"$l\"; done < {w}", "cat {w} | while read -r x; do echo $x; done", "while IFS= read -r l; do echo \"[$l]\"; done < {f}", "while IFS=, read -r a b c; do echo \"$b\"; done < {c}", "i=0; while true; do i=$((i+1)); [ $i -gt 2 ] && break; echo $i; done", "n=0; while read -r l; do n=$((n+1)); done < {f}; echo $n", "while read -r a b; do echo \"$b|$a\"; done < {s}", "i=0; while ((i < 3)); do echo $i; ((i++)); done", "seq 3 | while read n; do echo $((n * 2)); done", "echo a b c | { read x y; echo $y; }", "read x <<< '{W} {V}'; echo $x", "read a b <<< '{W} {V}'; echo $b", "i=0; while [[ $i -lt 2 ]]; do echo $i; i=$((i + 1)); done", "i=0; until ((i >= 2)); do echo $i; ((i += 1)); done", "while read -r n; do echo \"n=$n\"; done <<< '{W}'", "printf 'a\\nb' | while read -r l; do echo $l; done",
    "if true; then echo a; fi", "if false; then echo a; else echo b; fi", "if [ -f {f} ]; then echo file; else echo none; fi", "if [ -f {m} ]; then echo a; elif [ -d {d} ]; then echo b; else echo c; fi", "if grep -q {W} {f}; then echo found; else echo not; fi", "if [[ {W} == a* ]]; then echo A; else echo B; fi", "if ! [ -e {m} ]; then echo gone; fi", "if test -s {e}; then echo full; else echo empty; fi", "if [ {N} -gt 5 ]; then\n  echo big\nelse\n  echo small\nfi", "if cat {m}; then echo a; else echo b; fi", "if [ -d {d} ] && [ -f {f} ]; then echo both; fi", "if [ -f {m} ] || [ -f {f} ]; then echo one; fi", "if ((2 > 1)); then echo y; fi", "if true; then if false; then echo a; else echo b; fi; fi", "if ls {m} > /dev/null 2>&1; then echo a; else echo b; fi", "if cd {d}; then pwd; fi", "x={W}; if [ \"$x\" = {V} ]; then echo same; else echo differ; fi", "x=; if [ -z \"$x\" ]; then echo empty; fi", "if [ -n \"{W}\" ]; then echo n; fi", "if false; then echo a; fi; echo $?",
    "case {W} in a*) echo A;; b*) echo B;; *) echo other;; esac", "case {N} in 1|2|3) echo low;; *) echo high;; esac", "x={W}; case $x in {W}) echo same;; esac", "case {f} in *.txt) echo text;; *.py) echo py;; *) echo ?;; esac", "case \"{W}\" in\n  {V}) echo v;;\n  *) echo w\nesac", "x=b; case \"$x\" in [a-c]) echo in;; *) echo out;; esac", "case ab in ?b) echo q;; esac", "case x in (x) echo p;; esac", "case {W} in *e*) echo e ;; [!a-d]*) echo n ;; esac",
    *(f"[[ {e} ]]; echo $?" for e in ("{W} == {W}", "{W} == a*", "{W} != {V}", "{W} = {V}", "-f {f}", "-d {f}", "-e {m}", "-z ''", "-n {W}", "{N} -gt 3", "{N} -le 3", "{N} -eq 5", "{W} < {V}", "{W} > {V}", "{W} =~ ^a", "{W} =~ [0-9]+", "abc123 =~ ^[a-z]+[0-9]+$", "-f {f} && -d {d}", "-f {m} || -d {d}", "! -f {m}", "( -f {f} && -f {m} ) || -d {d}", "{W} == *e*", "{W} == ?????", "-s {e}", "-L {f}", "{W} =~ (a|b)", "2 -lt 10", "3 -ge 3", "3 -ne 4", "-r {f}", "-w {f}", "-x {f}", "ab =~ b$", "x == [a-z]", "x != [!a-z]", "{W} == \"{W}\"")),
    "x={W}; [[ $x == $x ]] && echo y", "x={W}; [[ -n $x && $x != b* ]] && echo y || echo n", "x=; [[ -z $x ]] && echo empty", "x=5; [[ $x -gt 3 ]] && echo big", "x='a b'; [[ $x == 'a b' ]] && echo y", "[[ {W} ]] && echo y", "x=v1; [[ $x =~ ^v[0-9]+$ ]] && echo version", "[[ \"$nope\" == \"\" ]] && echo none",
    "f() {{ echo hi; }}; f", "f() {{ echo \"hello $1\"; }}; f {W}", "f() {{ echo $#: $1 $2; }}; f a b", "f() {{ for x in \"$@\"; do echo $x; done; }}; f a 'b c'", "f() {{ local s=0; for x in \"$@\"; do s=$((s + x)); done; echo $s; }}; f 1 2 {N}".replace("f()", "ff()").replace("; f ", "; ff "), "function gg {{ echo hi; }}; gg", "ff() {{ return 3; }}; ff; echo $?", "ff() {{ local x=1; echo $x; }}; x=5; ff; echo $x", "ff() {{ x=2; }}; x=1; ff; echo $x", "ff() {{ cat \"$1\"; }}; ff {f}", "ff() {{ cat \"$1\"; }}; ff {m}", "ff() {{\n  echo one\n  echo two\n}}\nff", "ff() {{ echo $1; shift; echo $1; }}; ff a b", "ff() {{ [ -f \"$1\" ] && echo yes || echo no; }}; ff {f}; ff {m}", "ff() {{ echo \"$*\"; }}; ff a b c", "ff() {{ echo out; }}; ff > o; cat o", "ff() {{ echo b; echo a; }}; ff | sort", "x=$(ff() {{ echo q; }}; ff); echo $x", "ff() {{ if [ $1 -gt 2 ]; then return 1; fi; echo ok; }}; ff 1; ff 5 || echo failed", "ff() {{ echo \"$1-$2\"; }}; ff {W}; ff {W} {V}; ff", "gg() {{ echo g; }}; ff() {{ gg; gg; }}; ff", "ff() {{ local a=$1 b=$2; echo $((a * b)); }}; ff 3 {N}", "ff() {{ echo ${{1:-none}}; }}; ff; ff x", "ff() {{ echo $1 | tr a-z A-Z; }}; ff {W}", "ff() {{ true; }}; type -t ff", "fac() {{ if [ $1 -le 1 ]; then echo 1; else echo $(( $1 * $(fac $(($1 - 1))) )); fi; }}; fac 4", "ff() {{ echo \"$#\"; }}; ff; ff a 'b c' d", "ff() {{ wc -w; }}; echo a b | ff",
    "x=$(echo {W}); echo $x", "x=$(cat {f} | wc -l); echo $x", "echo \"n: $(wc -l < {f})\"", "echo $(echo a; echo b)", "echo \"$(echo a; echo b)\"", "echo $(cat {w})", "echo \"$(cat {w})\"", "x=$(ls {d}); echo \"$x\"", "echo $(basename {x} .txt)", "echo \"$(basename \"{x}\")\"", "x=$(echo $(echo deep)); echo $x", "echo a$(echo b)c", "x=$(false); echo $?", "x=$(cat {m}); echo \"[$x]\"", "echo $(cat {m})", "y=\"$(grep -c e {f}) lines\"; echo \"$y\"", "mkdir $(echo {M}); ls", "echo $(seq 3)", "x=$(printf 'a\\n\\n'); echo \"[$x]\"", "n=$(( $(wc -l < {f}) + 1 )); echo $n", "x=$(cd {d} && pwd); echo $x", "echo $(pwd)", "x=$(head -n 1 {w}); echo \"first: $x\"", "cat $(find {d} -name 'b.py')",
    "(exit 3); echo $?", "(echo a; echo b)", "(X=1); echo \"[$X]\"", "(cd {d}; ls) | wc -l", "{ echo a; echo b; }", "{ echo a; echo b; } | wc -l", "{ echo a; echo b; } > o; cat o", "(echo a; exit 2) || echo failed", "(echo b; echo a) | sort", "exit 7", "exit", "exit 0", "echo a; exit 3; echo b", "(false); echo $?", "(exit 1) || (exit 2); echo $?", "{ false; } || echo no", "( ( echo deep ) )", "(echo a > o); cat o", "false; exit", "exit $((3 + 4))", "false || exit 4", "true && exit 5",
    "echo {W} > new; cat new", "echo a > new; echo b >> new; cat new", "echo new >> {f}; tail -n 1 {f}", "cat < {f}", "wc -l < {f}", "sort < {w} > o; cat o", "> new; ls new", "cat {f} > {y}", "cat {m} > new; cat new", "cat < {m}", "echo x > {d}", "echo x > {z}", "cat {f} > /dev/null", "cat {m} 2>/dev/null", "cat {m} 2>/dev/null || echo none", "cat {f} {m} 2>/dev/null", "ls {m} > /dev/null 2>&1; echo $?", "cat {m} 2>&1", "ls {m} 2>&1 | head -n 1", "ls {m} &> /dev/null || echo no", "echo a >&2", "echo err >&2; echo out", "cat {m} 2>&1 | cat", "echo x 2>/dev/null", "grep {W} {m} 2>/dev/null; echo $?", "rm {m} 2>/dev/null; echo $?", "cat <<< '{W} {V}'", "cat <<< \"$HOME\"", "wc -w <<< 'a b c'", "tr a-z A-Z <<< {W}", "{m}x 2>/dev/null; echo $?".replace("{m}x", "nosuchcmd_q"), "echo a 1>new; cat new", "cat {f} | tee o | wc -l", "sort {w} -o o; cat o", "printf 'x' > new; cat new; echo", "echo a > new; cat new > new2; cat new2", "cat > new < {f}; cat new", "head -n 2 < {f} > o && cat o", "echo a >| new; cat new", "echo q > 'a b'; cat 'a b'", "echo x > {d}/new.txt && cat {d}/new.txt", "cat {f} {g} > o; wc -l < o", "mkdir {m} 2>/dev/null; ls", "cd {m} 2>/dev/null || echo gone", "cat {d} 2>&1", "rm {d} 2>&1", "wc -l {m} 2>&1", "cp {m} q 2>&1", "grep x {m} 2>&1", "head {m} 2>&1", "mkdir {d} 2>&1", "ls {m} 2>/dev/null; echo $?", "cd {m} 2>&1",
    "cat <<EOF\nline one\nline two\nEOF", "cat <<'EOF'\n$HOME `x` \\n\nEOF", "X={W}; cat <<EOF\nx=$X ${{X}} $((1+2)) $(echo sub)\nEOF", "cat > new <<EOF\nhello {W}\nEOF\ncat new", "cat > new <<'EOF'\nif x:\n    y = \"$z\"\nEOF\ncat new", "cat <<-EOF\n\tindented\n\tEOF", "cat <<EOF | wc -l\na\nb\nEOF", "cat <<EOF >> {f}\nmore\nEOF\ntail -n 2 {f}", "cat <<\"EOF\"\n\"q\" 'q' \\$\nEOF", "cat <<EOF\n\\$X \\\\ \"quoted\" 'single'\nEOF", "tee new <<EOF\nt\nEOF", "cat <<EOF > a && cat a\nx\nEOF", "sort <<EOF\nb\na\nEOF", "grep a <<'EOF'\nabc\nxyz\nEOF", "cat <<EOF\n\nEOF", "cat <<'END' > new && wc -l new\n# comment\n{{a}}\n\n  x\nEND", "while read -r l; do echo \"$l!\"; done <<EOF\np\nq\nEOF", "cat <<EOF; echo after\nbody\nEOF", "cat > s.py <<'PY'\nprint('x')\nPY\nwc -c s.py", "cat <<A\n{W}\nA\ncat <<B\n{V}\nB", "cat <<EOF\ntab\there\nEOF", "cat <<EOF\nlast \\\nline\nEOF", "cat >> new << EOF\n{W}\nEOF\ncat new",
    "set -e; echo a; false; echo b", "set -o pipefail; false | true; echo $?", "set -e; true; echo ok", "set -u; echo ok", "set -euo pipefail; echo ok", "set -e; if false; then echo a; fi; echo b", "set -e; false || true; echo b", "set -e; cd {d}; pwd", "set -euo pipefail; cat {f} | wc -l", "set -e; cat {m}; echo b", "set -e; grep -q nothinghere {f}; echo b", "set -o pipefail; cat {m} | cat; echo $?", "set -e; ! true; echo x", "set +e; false; echo x", "set -eu; echo {W}",
    "type cd", "type export", "echo $HOME", "echo $PWD", "echo $USER", "echo $#", "echo \"$@\"", "echo $1", "echo \"$*\"", "echo \"[$1]\"", "cd {d}; echo $PWD; echo $OLDPWD", "true; echo \"$?\"", "false; echo \"rc=$?\"", "cat {m}; echo $?", "ls {m}; echo \"rc $?\"", "grep -q nothinghere {f}; echo $?", "true\necho $?", "false\nx=$?\necho $x", "cat {f} > /dev/null; rc=$?; echo rc $rc", "sh_x={W}; echo ${{sh_x}}", "echo ${{PWD}}", "echo \"${{PWD##*/}}\"", "basename \"$PWD\"", "echo ${{HOME}}/x",
    # pipelines of several
    "cat {f} | grep {W} | wc -l", "sort {w} | uniq -c | sort -rn", "sort {w} | uniq -c | sort -rn | head -n 2", "cat {f} | head -n 3 | tail -n 1", "cut -d, -f2 {c} | sort -n | tail -1", "grep -v '^$' {f} | sort | uniq | wc -l", "cat {c} | tail -n +2 | cut -d , -f 1 | sort", "ls | wc -l", "ls {d} | sort -r", "ls | head -n 3", "ls | grep txt", "find . -type f | wc -l", "find . -name '*.py' | sort | head -n 2", "tr a-z A-Z < {f} | sort | head -2", "seq {N} | tac | head -n 2", "echo {W} | rev", "echo {W} | wc -c", "cat {f} | sed 's/a/b/' | awk '{{print $1}}' | sort -u", "awk -F, '{{print $2}}' {c} | sort | head -n 3", "cat {l} | tail -n 5 | head -n 2", "cat {f} | cat | cat", "grep -c e {f} | cat", "cat {w} | sort | uniq -d", "cat {w} | sort -u | paste -sd,", "head -c 20 {f} | wc -c", "cat {f} {g} | sort | uniq -u", "grep -n e {f} | cut -d: -f1", "ls {d} | cat", "ls -1 | wc -l", "ls -a | wc -l", "ls -A | wc -l", "echo 'b a c' | tr ' ' '\\n' | sort | tr '\\n' ' '", "wc -l {f} | awk '{{print $1}}'", "wc -l < {f} | tr -d ' '", "cat {f} | nl | head -n 2", "grep e {f} | head -n 1", "cat {f} | xargs -n 1 | head -n 3", "ls *.txt | xargs wc -l | tail -n 1", "cat {m} | wc -l", "cat {f} | tail -n 2 | sed -n 1p", "true | false; echo $?", "false | true; echo $?", "echo a | false || echo no", "echo x | grep -q x && echo y", "echo {W} | sed 's/./&-/'", "find {d} -type f | sort | xargs cat | wc -l", "cat {w} | grep -v {W} | head -2", "sort {w} | head -n 1; sort {w} | tail -n 1", "grep -rl e {d} | sort", "grep -rn e {d} | sort", "grep -r e {d} | wc -l", "grep -rc e {d} | sort", "grep -rh e {d} | sort", "grep -r nothinghere {d}", "grep -rn nothinghere .", "grep -rli E {d} | sort", "grep -rn TODO {d} {D} | sort", "grep -r --include='*.py' e . | sort", "grep -rnE 'a|e' {d} | sort | head -n 3", "grep -rn {W} {d}", "grep -rl {W} .", "grep -rnw {W} . | sort", "grep -rin {W} . | sort", "grep -rnF {W} . | sort", "grep -rlE '{W}|zzz' . | sort", "find . -type f | sort | head -n 3", "find . -type f | grep -v deep | sort", "find {d} -type f | cut -d/ -f2 | sort", "find . -name '*.md' | xargs cat",
]  # fmt: skip


def _spell(flags: str, rng: random.Random) -> str:
    """A set of options in one of the ways people write it."""
    words = flags.split(" ") if "'" not in flags else [flags]
    if len(words) < 2 or "'" in flags:
        return flags
    out: list[str] = []
    at = 0
    while at < len(words):
        word = words[at]
        value = words[at + 1] if at + 1 < len(words) and not words[at + 1].startswith("-") else None
        at += 1 + (value is not None)
        if value is not None:
            out.append(f"{word}{value}" if rng.random() < 0.4 and not word.startswith("--") else f"{word} {value}")
        elif (
            out
            and rng.random() < 0.5
            and " " not in out[-1]
            and len(word) == 2
            and len(out[-1]) >= 2
            and out[-1][1:].isalpha()
        ):  # noqa: PLR2004
            out[-1] += word[1:]
        else:
            out.append(word)
    return " ".join(out)


def _flag_sets(flags: Sequence[str], more: Sequence[str]) -> list[str]:
    sets = list(flags)
    for size in (1, 2, 3):
        sets += [" ".join(chosen) for chosen in itertools.combinations(more, size)]
    return sets


def _templates(rng: random.Random) -> Iterator[str]:
    for name, (flags, more) in _READERS.items():
        for flag in _flag_sets(flags, more):
            for operand in _ONE + _MANY + _INPUT:
                yield f"{name} {_spell(flag, rng)} {operand}"
            for source in _PIPED:
                yield f"{source} {name} {_spell(flag, rng)}"
            if "," in flag:
                yield from (f"{name} {_spell(flag, rng)} {{c}}" for _ in range(6))
    for name in ("sort", "uniq", "head", "tail", "wc"):
        yield from (f"{name} {o} {{w}}" for o in ("", "-c") for _ in range(2))
    yield from _grep(rng)
    for script in _SED:
        for operand in ("{f}", "{g}", "{e}", "{n}", "{w}", "{l}", "{c}", "< {f}", "{m}", "{f} {g}"):
            yield f"sed {script} {operand}"
        yield f"cat {{f}} | sed {script}"
        for operand in ("{f}", "{n}", "{e}", "{g} {f}", "{m}"):
            yield f"sed -i {script} {operand}"
    for script in _SED_EXTENDED:
        for operand in ("{f}", "{g}", "{e}", "{n}", "{c}", "{x}", "< {f}"):
            yield f"sed {rng.choice(['-E', '-r'])} {script} {operand}"
            yield f"sed -E {script} {operand}"
        yield f"cat {{f}} | sed -E {script}"
        yield f"sed -i -E {script} {{f}}"
    for script in _AWK:
        for operand in ("{f}", "{g}", "{e}", "{n}", "{w}", "{s}", "{x}", "< {f}", "{u}"):
            program, pipe, rest = script.partition(" | ")
            yield f"awk {program} {operand}{pipe}{rest}"
        yield f"cat {{f}} | awk {script}"
        yield (
            f"awk {script.split(' | ')[0]} {{f}} {{g}}"
            if "|" not in script
            else f"awk {script.replace(' |', ' {f} {g} |')}"
        )
    for script in _AWK_CSV:
        for separator in ("-F,", "-F ,", "-F ','"):
            yield from (f"awk {separator} {script} {operand}" for operand in ("{c}", "{e}", "{f}", "< {c}"))
    for separator in ("-F:", "-F=", "-F' '", "-F'\\t'", "-F/", "-F.", "-F'|'", "-F-", "-F_"):
        yield from (f"awk {separator} '{{{{print $2}}}}' {operand}" for operand in ("{f}", "{g}", "{x}", "{n}", "{w}"))
        yield from (f"awk {separator} '{{{{print $1}}}}' {operand}" for operand in ("{f}", "{c}"))
    for value in ("x=5", "w={W}", "n={N}"):
        yield from (f"awk -v {value} '{p}' {o}" for p in ("{{print " + value[0] + ", $1}}", "NR > " + value[0], "$1 == " + value[0]) for o in ("{f}", "{w}", "{e}"))  # fmt: skip
    for script in _JQ:
        for flag in ("", "-r", "-c", "-r", "-c -r", "-e", "-S", "-j", "-s"):
            yield f"jq {flag} '{script}' {{j}}"
        yield f"cat {{j}} | jq '{script}'"
        yield f"jq '{script}' < {{j}}"
    yield from (
        "jq . {m}",
        "jq .x {e}",
        "jq -n '1 + 2'",
        "jq -r .name {j} {j}",
        "echo '[1,2,3]' | jq 'map(. * 2)'",
        "echo '[3,1,2]' | jq -c sort",
        "echo '{{\"a\": 1}}' | jq .a",
        "echo '[1,2]' | jq 'length'",
        'echo \'{{"b":2,"a":1}}\' | jq -S .',
    )
    for text in _PRINTF:
        yield from (f"printf {text}" for _ in range(6))
    for text in _TEST:
        yield from (
            f"[ {text} ]; echo $?",
            f"test {text}; echo $?",
            f"[ {text} ] && echo yes",
            f"test {text} && echo y || echo n",
            f"if [ {text} ]; then echo T; fi",
        )
        yield from (f"[ {text} ] && echo yes || echo no" for _ in range(2))
    yield from (
        f"x={a}; [ $x {o} {b} ] && echo y || echo n"
        for a in ("{N}", "5")
        for o in ("-eq", "-lt", "-gt", "=", "!=")
        for b in ("5", "3")
    )
    yield from (f'x={a}; [ "$x" = {b} ]; echo $?' for a in ("{W}", "", "'a b'") for b in ("{W}", "'a b'", "''"))
    yield from (f"x={a}; [ -{o} $x ]; echo $?" for a in ("{f}", "{d}", "{m}") for o in ("f", "d", "e", "s", "n", "z"))
    for text in _FIND:
        for start in (".", "{d}", "{k}"):
            yield from (f"find {start} {text} | sort", f"find {start} {text} | wc -l", f"find {start} {text}")
        yield f"find {text} | sort" if text.startswith("-") else "find | sort"
        yield f"find {{m}} {text}"
        yield f"find {{f}} {text}"
    for script in _SCRIPTS:
        yield from (script for _ in range(5))


def _grep(rng: random.Random) -> Iterator[str]:
    def quoted(text: str) -> str:
        return f"'{text}'" if rng.random() < 0.8 or not text.isalnum() else text

    operands = ["{f}", "{g}", "{x}", "{e}", "{n}", "{c}", "{l}", "{m}", "< {f}", "{w}"]
    for text in _GREP_BASIC:
        for flag in ("", "-o", "-n", "-c", "-i", "-v"):
            yield from (f"grep {flag} {quoted(text)} {rng.choice(operands)}" for _ in range(3))
        yield f"cat {{f}} | grep {quoted(text)}"
    for text in _GREP_EXTENDED:
        for flag in ("-E", "-o -E", "-n -E", "-c -E", "-i -E", "-v -E", "-i -o -E", "-q -E", "-n -o -E"):
            yield from (f"grep {_spell(flag, rng)} {quoted(text)} {rng.choice(operands)}" for _ in range(3))
        yield f"cat {{f}} | grep -E {quoted(text)}"
        yield from (f"cat {{f}} | grep {flag} {quoted(text)}" for flag in ("-oE", "-vE", "-cE", "-iE"))
    for text in _GREP_FIXED:
        for flag in ("-F", "-n -F", "-c -F", "-o -F", "-i -F", "-v -F", "-q -F", "-l -F", "-x -F", "-w -F"):
            yield from (f"grep {_spell(flag, rng)} '{text}' {rng.choice(operands)}" for _ in range(3))
    shapes = [*operands, "{f} {g}", "{x} {f} {w}", "{d}/*.*", "*.txt", "{f} {m}"]
    for flag in ["", *_flag_sets([], _GREP_FLAGS)[: 13 + 78]]:
        for operand in [
            "{f}",
            "{x}",
            "{g}",
            "{w}",
            "{m}",
            "{e}",
            "{f} {g}",
            "{x} {f} {w}",
            "{d}/*.*",
            "{f} {g} {e}",
            "< {f}",
        ]:
            yield f"grep {_spell(flag, rng)} {rng.choice(['{W}', 'e', 'a', 'TODO', 'nothinghere'])} {operand}"
        yield from (f"cat {{f}} | grep {_spell(flag, rng)} {p}" for p in ("e", "{W}", "a"))
    for flag in ("-A {N}", "-B {N}", "-C {N}", "-A 1 -n", "-B 1 -n", "-C 1 -n", "-m 1", "-m 2 -n", "-e {W}", "-e {W} -e {V}", "-c -e e", "-A1 -i", "-n -B2", "--color=never", "-a", "-I", "-n -m 1", "-A 2 -B 1", "-A 1 -i -n"):  # fmt: skip
        tail = [""] if "-e" in flag else ["{W}", "e", "code", "TODO"]
        for operand in shapes:
            yield f"grep {flag} {rng.choice(tail)} {operand}"
        yield from (f"cat {{f}} | grep {flag} {rng.choice(tail)}" for _ in range(4))
    for flag in ("-r", "-rn", "-rl", "-rc", "-rh", "-ri", "-rw", "-rni", "-rE", "-rnE", "-ro", "-rv", "-R", "-rF", "-rL", "-rq", "-rs", "-rnw", "-rlE", "-rli", "-roE", "-rohE", "-rnF", "-rH"):  # fmt: skip
        for place in ("{d}", ".", "{d} {D}", "{f}", "{k}", "{m}", "", "{d}/", "{x}"):
            yield from (f"grep {flag} {p} {place} | sort" for p in ("{W}", "e", "nothinghere"))
        yield from (f"grep {flag} {p} {place}" for p in ("nothinghere", "{W}") for place in ("{d}", ".", "{f}", "{k}"))


# Simple commands that are put together at random, so that what is certified alone is tried in company.
_PARTS = [
    "echo {W}", "cat {f}", "cat {m}", "mkdir {M}", "mkdir -p {M}/a", "cd {d}", "cd {m}", "ls {d}", "ls {m}", "rm {f}", "rm {m}", "touch new.txt", "grep -n e {g}", "grep -q {W} {f}", "wc -l {f}",
    "wc -l < {w}", "sort {w}", "head -n 2 {f}", "tail -n 1 {g}", "pwd", "true", "false", "[ -f {f} ]", "[ -d {m} ]", "test -e {x}", "[[ {W} == *e* ]]", "echo {W} > out.txt", "echo {V} >> out.txt", "cat out.txt",
    "X={W}", "X=$(cat {f} | wc -l)", "echo \"$X\"", "echo $((2 * {N}))", "cp {f} copy.txt", "mv {g} moved.txt", "rm -f {m}", "sed -n 1p {f}", "sed -i s/a/A/g {f}", "awk '{{print $1}}' {w}", "cut -d, -f1 {c}", "tr a-z A-Z < {g}",
    "printf '%s\\n' {W}", "find {d} -name '*.py'", "cat {x}", "cat {e}", "ls", "rmdir {k}", "rmdir {d}", "mkdir {d}", "cp {m} q", "echo $?", "(exit {N})", "uniq {w}", "nl {g}", "cat nothing_here 2>/dev/null", "ln -s {f} lnk", "chmod +x {f}", "seq 3", "basename {x}", "diff {s} {s}",
]  # fmt: skip
_FRAMES = [
    "{0}; {1}", "{0}; {1}; {2}", "{0} && {1}", "{0} || {1}", "{0} && {1} || {2}", "{0}\n{1}", "{0}\n{1}\n{2}\n", "({0}; {1})", "{{ {0}; {1}; }}", "if {0}; then {1}; else {2}; fi", "for i in 1 2; do {0}; {1}; done", "({0}); {1}",
    "{0} | cat", "{0} | sort", "{0} | wc -l", "{0} > res; cat res", "{0} 2>/dev/null; {1}", "echo \"$({0})\"; {1}", "R=$({0}); echo \"[$R]\"", "while {0}; do {1}; break; done", "fn() {{ {0}; {1}; }}; fn", "set -e; {0}; {1}", "{0} > /dev/null && {1}", "! {0}; {1}",
    "{0} && {{ {1}; {2}; }}", "({0} && {1}) || {2}", "{0} | head -n 1; {1}", "{0} | tail -n 2 | sed s/a/b/; {1}", "for f in *.txt; do {0}; done; {1}", "case {W} in *e*) {0};; *) {1};; esac; {2}", "{{ {0}; {1}; }} > res; cat res", "({0}; {1}) | sort", "until {0}; do {1}; break; done; {2}", "{0};\n# note\n{1}", "fn() {{ {0}; }}; fn && {1} || {2}", "{0} 2>&1; {1}", "set -o pipefail; {0} | cat; {1}",
]  # fmt: skip


def _composed(rng: random.Random, count: int) -> Iterator[str]:
    for _ in range(count):
        frame = rng.choice(_FRAMES)
        for slot in range(3):
            frame = frame.replace(f"{{{slot}}}", rng.choice(_PARTS))
        yield frame


def cases(seed: int) -> Iterator[Case]:
    """Every case of certification, in an order that depends on the seed alone."""
    rng = random.Random(seed)  # noqa: S311 - nothing secret
    for template in itertools.chain(_templates(rng), _composed(rng, 4000)):
        found, letters = tree(rng)
        yield Case(command=_fill(template, letters, rng), tree=found)


def _fill(template: str, letters: Mapping[str, str], rng: random.Random) -> str:
    text = template.replace("{N}", "\0")
    for letter, value in letters.items():
        text = text.replace("{" + letter + "}", value)
    while "\0" in text:
        text = text.replace("\0", str(rng.randint(1, 9)), 1)
    return text.replace("{{", "{").replace("}}", "}")
