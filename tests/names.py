#!/usr/bin/env python3
"""names.py ROOT: every public name that is written is one, in what this reads: the pages, the
examples and the headers as a whole; scripts, too (*.sh, *.py); of the C files of the library, the
tools, the tests and the benchmarks their comments and texts (errors name functions), since the
compiler reads the rest. A word that begins with tide_ or TIDE_ is declared in include/tide, or it
is a variable of docs/environment.md, or a folder's file, or it stands below. So nothing speaks of a
function that was renamed, or never was."""
import glob
import os
import re
import sys

WORD = re.compile(r'(?<![\w/.<$#-])(?:tide|TIDE)_[A-Za-z0-9_]*[A-Za-z0-9](?![\w*-]|\.[ch]u?\b)')
COMMENT = re.compile(r'/\*.*?\*/', re.S)
TEXT = re.compile(r'"(?:[^"\\\n]|\\.)*"|/\*.*?\*/', re.S)
# Kernels for a GPU have names of their own, and so has the text that they are made of.
KERNELS = re.compile(r'cuda_|copy_many|arrays/linalg/factor\.h|'
                     r'tests/(doubles/emulate\.h|arrays/test_(matmul|linalg_k)|device/test_emulate)')
# These make up names, whose faults they look for.
MADE_UP = {'tests/api.py', 'tests/names.py'}
# Stand for any name, and for a program's own.
ANY = {'tide_x', 'tide_verb', 'tide_X_info', 'tide_X_figures', 'tide_X_text', 'tide_my_fft'}
# Names of the tests' and the benchmarks' own, and variables that nobody reads.
OWN = {'tests': {'tide_test', 'tide_k', 'tide_stage', 'tide_accs', 'TIDE_K', 'tide_fuzz_one',
                 'TIDE_WANTS_kernel', 'TIDE_WANTS_ALL', 'TIDE_FLAVOUR', 'TIDE_LIMT', 'TIDE_POOl', 'TIDE_TEST_ANYTHING', 'TIDE_BUILD'},
       'bench': {'tide_gemm_more', 'tide_matmul_more', 'TIDE_BUILD'},
       'tools': {'TIDE_API_TABLE_H', 'TIDE_BUILD'}}


def read(path):
    with open(path, encoding='utf-8', errors='replace') as f:
        return f.read()


def main(root):
    os.chdir(root)
    known = set(ANY)
    known |= set(re.findall(r'`((?:TIDE|CUDA|NVTX)_\w+)`', read('docs/environment.md')))
    for header in glob.glob('include/tide/*.h'):
        known |= set(re.findall(r'\b(?:tide|TIDE)_\w+', COMMENT.sub(' ', read(header))))
    pages = glob.glob('*.md') + glob.glob('docs/*.md') + glob.glob('tests/findings/*.md')
    whole = pages + glob.glob('examples/c/*.[ch]') + glob.glob('include/tide/*.h')
    whole += [p for folder in ('bench', 'tests', 'tools') for ext in ('sh', 'py')
              for p in glob.glob(f'{folder}/**/*.{ext}', recursive=True) if p not in MADE_UP]
    parts = [p for folder in ('arrays', 'bench', 'gc', 'libs', 'runtime', 'tests', 'tools')
             for p in glob.glob(folder + '/**/*.[ch]', recursive=True) if not KERNELS.search(p)]
    parts += glob.glob('*.c')
    missing = 0
    for path in sorted(whole) + sorted(parts):
        text = read(path)
        own = OWN.get(path.split('/')[0], set())
        pieces = [(0, text)] if path in whole else \
            [(m.start(), m.group()) for m in TEXT.finditer(text)]
        for at, piece in pieces:
            for m in WORD.finditer(piece):
                if m.group() in known or m.group() in own or os.path.exists(m.group()):
                    continue
                line = text.count('\n', 0, at + m.start()) + 1
                print(f'{path}:{line}: {m.group()} is no public name')
                missing += 1
    return 1 if missing else 0


sys.exit(main(sys.argv[1]))
