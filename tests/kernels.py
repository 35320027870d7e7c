#!/usr/bin/env python3
"""kernels.py ROOT: every kernel that is launched as one of ours (arrays/kernels/kernels.h) begins with
kt_grid_wait(), be it a function or what a macro makes of one: ours start while those that they stand behind still run
(runtime/device/cuda/work.c and graph.c), and one that does not wait would read what is not written yet.

Between __global__ and its body a function has no brace. A macro may have a head alone; then what
uses it is looked at in its place. Strings are read as the text that they are."""
import glob
import os
import re
import sys

# Kernels that others launch, or nobody, with how many there are.
NOT_OURS = {'runtime/device/cuda/copy_many.c': 1, 'bench/arrays.c': 1}
COMMENT = re.compile(r'/\*.*?\*/', re.S)
HEAD_ALONE = re.compile(r'^ *#define (\w+)[^\n]*__global__[^\n{]*$', re.M)


def plain(text):
    """Without comments, macros on one line each, strings in a row as one text."""
    text = COMMENT.sub('', text).replace('\\\n', ' ')
    return re.sub(r'\\n"\s*"|\\n', ' ', text)


def bodies(text, heads):
    """What the body of each kernel begins with."""
    text = HEAD_ALONE.sub('', text)
    for m in re.finditer('|'.join(['__global__'] + [rf'\b{h}\(' for h in heads]), text):
        yield text[m.end():].partition('{')[2].split('}')[0].strip()


def wrong(texts):
    heads = [h for t in texts.values() for h in HEAD_ALONE.findall(t)]
    found = [(path, b) for path, t in texts.items() for b in bodies(t, heads)]
    return len(found), [f for f in found if not f[1].startswith('kt_grid_wait();')]


def check():
    """It finds what it looks for."""
    texts = {'a': plain('extern "C" __global__ void __launch_bounds__(256) k(const p q) {\n    kt_grid_wait();\n}\n'
                        'extern "C" __global__ void k(p q) {\n    int i;\n    kt_grid_wait();\n}\n'
                        '#define HEAD(n) \\\n    extern "C" __global__ __launch_bounds__(n)\n'
                        '#define K(n) \\\n    WANTED(n)(HEAD(2) n(p q) { \\\n        kt_grid_wait(); \\\n    })\n'),
             'b': plain('say("HEAD(2) k(p q) {\\n"\n    "    kt_grid_wait();\\n}\\n"); say("HEAD(2) k(p q) {\\n  run();");')}
    assert wrong(texts) == (5, [('a', 'int i;\n    kt_grid_wait();'), ('b', 'run();");')]), wrong(texts)


def main(root):
    check()
    texts = {}
    for folder in ('arrays', 'bench', 'gc', 'libs', 'runtime', 'tests', 'tools'):
        for path in sorted(glob.glob(os.path.join(root, folder, '**', '*.*'), recursive=True)):
            if path.endswith(('.cu', '.h', '.c')):
                with open(path, encoding='utf-8') as f:
                    text = f.read()
                if folder != 'tests' or 'tidei_own_kernel' in text: # other tests launch their own
                    texts[os.path.relpath(path, root)] = plain(text)
    found, bad = wrong(texts)
    for path, n in NOT_OURS.items():
        known = [b for b in bad if b[0] == path][:n]
        bad = [b for b in bad if b not in known] if len(known) == n else bad + [(path, 'nothing')]
    for path, begin in bad:
        print(f'{path}: a kernel begins with "{begin}", not with kt_grid_wait();')
    print(f'{found} kernels, {len(bad)} wrong')
    return 1 if bad or found < 30 else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1]))
