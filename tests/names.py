#!/usr/bin/env python3
"""names.py ROOT: every public name that is written somewhere is one: in the pages, the examples, the
headers' comments, and in comments and texts of the library (errors name functions). A word that
begins with tide_ or TIDE_ is declared in include/tide, or it is a variable of docs/environment.md, or
a folder's file. So nothing speaks of a function that was renamed, or never was."""
import glob
import os
import re
import sys

WORD = re.compile(r'(?<![\w/.<$#-])(?:tide|TIDE)_[A-Za-z0-9_]*[A-Za-z0-9](?![\w*-]|\.[ch]u?\b)')
COMMENT = re.compile(r'/\*.*?\*/', re.S)
TEXT = re.compile(r'"(?:[^"\\\n]|\\.)*"|/\*.*?\*/', re.S)
# Kernels for a GPU have names of their own, and so has the text that they are made of.
KERNELS = re.compile(r'cuda_|copy_many|arrays/factor\.h')


def read(path):
    with open(path, encoding='utf-8', errors='replace') as f:
        return f.read()


def main(root):
    os.chdir(root)
    # Stand for any name, and for a program's own.
    known = {'tide_x', 'tide_verb', 'tide_X_info', 'tide_X_figures', 'tide_X_text', 'tide_my_fft'}
    known |= set(re.findall(r'`((?:TIDE|CUDA|NVTX)_\w+)`', read('docs/environment.md')))
    for header in glob.glob('include/tide/*.h'):
        known |= set(re.findall(r'\b(?:tide|TIDE)_\w+', COMMENT.sub(' ', read(header))))
    pages = glob.glob('*.md') + glob.glob('docs/*.md') + glob.glob('tests/findings/*.md')
    whole = pages + glob.glob('examples/c/*.[ch]') + glob.glob('include/tide/*.h')
    parts = [p for folder in ('arrays', 'gc', 'libs', 'runtime', 'tools')
             for p in glob.glob(folder + '/**/*.[ch]', recursive=True) if not KERNELS.search(p)]
    parts += glob.glob('*.c')
    missing = 0
    for path in sorted(whole) + sorted(parts):
        text = read(path)
        pieces = [(0, text)] if path in whole else \
            [(m.start(), m.group()) for m in TEXT.finditer(text)]
        for at, piece in pieces:
            for m in WORD.finditer(piece):
                if m.group() in known or os.path.exists(m.group()):
                    continue
                line = text.count('\n', 0, at + m.start()) + 1
                print(f'{path}:{line}: {m.group()} is no public name')
                missing += 1
    return 1 if missing else 0


sys.exit(main(sys.argv[1]))
