/* functions.h: elementary functions of complex numbers, and special functions of real ones, that
** ops.def names by G(): one text for both back ends, as prelude.h is, which comes before it. Those
** that CUDA has itself are the host's alone, named by F().
**
** Included (and on CUDA written) twice: with TD_WIDTH 32 for f32 and c64, with 64 for f64 and c128.
** What must stay true: real functions of <math.h> are all that it calls, so the back ends differ no
** more than those do; each part of a complex result is computed without cancellation, but where a
** comment says so; special values are those of C17, Annex G.
**
** Sources: Kahan, Branch cuts for complex elementary functions, 1987. Hull, Fairgrieve and Tang,
** Implementing complex elementary functions using exception handling, ACM TOMS 20, 1994; and
** Implementing the complex arcsine and arccosine functions using exception handling, TOMS 23, 1997.
** Wichura, The percentage points of the normal distribution, Algorithm AS 241, 1988. */
#if TD_WIDTH == 32
#define R       td_f32
#define FR(f)   TD_NAME(f, f32)
#define MATH(f) TD_MATH_f32(f)
#define Z       td_c64
#define FZ(f)   TD_NAME(f, c64)
#define MAKE    td_make_c64
#define WIDE    0 /* f64 */
#define EPSILON 0x1p-23f
#define LOST    (-1.90465429995776e-09f) /* of LOG2 */
#define LARGE   88                       /* exp of it is finite */
#define SQUARED 0x1p61f /* sums of the squares of such numbers are finite, of inverses normal */
#define TOP     0x1p126f
#define LOW     0x1p-100f
#define LIFT    60
#else
#define R       td_f64
#define FR(f)   TD_NAME(f, f64)
#define MATH(f) TD_MATH_f64(f)
#define Z       td_c128
#define FZ(f)   TD_NAME(f, c128)
#define MAKE    td_make_c128
#define WIDE    1
#define EPSILON 0x1p-52
#define LOST    2.3190468138462996e-17
#define LARGE   709
#define SQUARED 0x1p509
#define TOP     0x1p1022
#define LOW     0x1p-960
#define LIFT    200
#endif
#define PI   ((R)3.14159265358979323846)
#define LOG2 ((R)0.693147180559945309417)

/* ---- special functions ---- */

/* sin(pi*x) / (pi*x): the period is taken off before pi comes in, which is exact. */
TD_FN R FR(sinc)(R x) {
    R whole = MATH(rint)(x), s = MATH(sin)(PI * (x - whole));
    if (x == 0) return 1;
    if (x == x && x - x != 0) return 0;
    if (whole == x) return 0;
    return (whole - 2 * MATH(trunc)(whole / 2) == 0 ? s : -s) / (PI * x);
}

TD_FN R FR(logaddexp)(R a, R b) {
    if (a == b) return a + LOG2; /* infinities too */
    return (a > b ? a : b) + MATH(log1p)(MATH(exp)(-MATH(fabs)(a - b)));
}

/* erfc(-x/sqrt(2))/2. Far below 0 erfc multiplies its operand's relative error by twice the
** operand's square: so what was lost in computing it is given back by erfc's slope. */
TD_FN R FR(norm_cdf)(R x) {
    const R s = (R)0.707106781186547524401;
    const R rest = WIDE ? (R)-4.8336466567264565e-17 : (R)1.2101617104478969e-8;
    R t = -x * s, e = MATH(erfc)(t);
    if (x < -1 && x > -40) {
        R lost = MATH(fma)(-x, s, -t) - x * rest;
        e -= lost * (R)1.12837916709551257390 * MATH(exp)(-t * t);
    }
    return (R)0.5 * e;
}

/* Polynomials, the highest power's factor first. */
TD_FN R FR(poly5)(R x, R a, R b, R c, R d, R e, R f) {
    R p = td_fused(td_fused(a, x, b), x, c);
    return td_fused(td_fused(td_fused(p, x, d), x, e), x, f);
}
TD_FN R FR(poly7)(R x, R a, R b, R c, R d, R e, R f, R g, R h) {
    return td_fused(td_fused(FR(poly5)(x, a, b, c, d, e, f), x, g), x, h);
}

#ifndef td_erfinv /* the host */
/* AS 241: the x at which the normal distribution function is q + 0.5; `tail`: the lesser of that
** and 1 less that. In f32 by the shorter polynomials, whose relative error is 1e-7. */
#if WIDE
TD_FN R FR(as241)(R q, R tail) {
    R r = (R)0.180625 - q * q, over, under;
    if (MATH(fabs)(q) <= (R)0.425) {
        over = FR(poly7)(r, 2.5090809287301226727e3, 3.3430575583588128105e4,
                         6.7265770927008700853e4, 4.5921953931549871457e4, 1.3731693765509461125e4,
                         1.9715909503065514427e3, 1.3314166789178437745e2, 3.3871328727963666080);
        under = FR(poly7)(r, 5.2264952788528545610e3, 2.8729085735721942674e4,
                          3.9307895800092710610e4, 2.1213794301586595867e4, 5.3941960214247511077e3,
                          6.8718700749205790830e2, 4.2313330701600911252e1, 1);
        return q * over / under;
    }
    r = MATH(sqrt)(-MATH(log)(tail));
    if (r <= 5) {
        r -= 1.6;
        over = FR(poly7)(r, 7.74545014278341407640e-4, 2.27238449892691845833e-2,
                         2.41780725177450611770e-1, 1.27045825245236838258, 3.64784832476320460504,
                         5.76949722146069140550, 4.63033784615654529590, 1.42343711074968357734);
        under =
            FR(poly7)(r, 1.05075007164441684324e-9, 5.47593808499534494600e-4,
                      1.51986665636164571966e-2, 1.48103976427480074590e-1,
                      6.89767334985100004550e-1, 1.67638483018380384940, 2.05319162663775882187, 1);
    } else {
        r -= 5;
        over = FR(poly7)(r, 2.01033439929228813265e-7, 2.71155556874348757815e-5,
                         1.24266094738807843860e-3, 2.65321895265761230930e-2,
                         2.96560571828504891230e-1, 1.78482653991729133580, 5.46378491116411436990,
                         6.65790464350110377720);
        under = FR(poly7)(r, 2.04426310338993978564e-15, 1.42151175831644588870e-7,
                          1.84631831751005468180e-5, 7.86869131145613259100e-4,
                          1.48753612908506148525e-2, 1.36929880922735805310e-1,
                          5.99832206555887937690e-1, 1);
    }
    return q < 0 ? -(over / under) : over / under;
}
#else
TD_FN R FR(as241)(R q, R tail) {
    R r = 0.180625f - q * q, x;
    if (MATH(fabs)(q) <= 0.425f)
        return q * (((59.109374720f * r + 159.29113202f) * r + 50.434271938f) * r + 3.3871327179f) /
               (((67.187563600f * r + 78.757757664f) * r + 17.895169469f) * r + 1);
    r = MATH(sqrt)(-MATH(log)(tail));
    if (r <= 5) {
        r -= 1.6f;
        x = (((0.17023821103f * r + 1.3067284816f) * r + 2.7568153900f) * r + 1.4234372777f) /
            ((0.12021132975f * r + 0.73700164250f) * r + 1);
    } else {
        r -= 5;
        x = (((0.017337203997f * r + 0.42868294337f) * r + 3.0812263860f) * r + 6.6579051150f) /
            ((0.012258202635f * r + 0.24197894225f) * r + 1);
    }
    return q < 0 ? -x : x;
}
#endif
TD_FN R FR(norm_ppf)(R p) {
    R q = p - (R)0.5;
    if (!(p > 0 && p < 1)) return p == 0 || p == 1 ? q / (p - p) : (p - p) / (p - p);
    return FR(as241)(q, q < 0 ? p : 1 - p);
}
TD_FN R FR(erfinv)(R x) {
    R a = MATH(fabs)(x);
    if (!(a < 1)) return a == 1 ? x / (x - x) : (x - x) / (x - x);
    return FR(as241)(x / 2, (1 - a) / 2) * (R)0.707106781186547524401;
}
#endif

/* Of x >= 1, which is `lost` more: around its zero by a rational function with the zero as a factor
** (Boost.Math's, by John Maddock), from 10 on by the asymptotic series. */
TD_FN R FR(digamma_of_1)(R x, R lost) {
    R over = 0, under = 1, z, p;
    if (x >= 10) {
        const R inverse = 1 / x;
        z = inverse * inverse;
        p = FR(poly7)(z, (R)-0.44325980392156862745, (R)0.083333333333333333333,
                      (R)-0.021092796092796092796, (R)0.0075757575757575757576,
                      (R)-0.0041666666666666666667, (R)0.0039682539682539682540,
                      (R)-0.0083333333333333333333, (R)0.083333333333333333333);
        return MATH(log)(x) - inverse / 2 - z * p;
    }
    while (x > 2) { /* over/under grows by 1/x */
        x -= 1;
        over = td_fused(over, x, under);
        under *= x;
    }
    z = x - 1;
    p = FR(poly5)(z, (R)-0.0020713321167745952, (R)-0.045251321448739056, (R)-0.28919126444774784,
                  (R)-0.65031853770896507, (R)-0.32555031186804491, (R)0.25479851061131551);
    p /= FR(poly5)(z, (R)-0.55789841321675513e-6, (R)0.0021284987017821144, (R)0.054151797245674225,
                   (R)0.43593529692665969, (R)1.4606242909763515, (R)2.0767117023730469) *
             z +
         1;
    x -= (R)1.46163214496836234126; /* the zero, in two parts */
    x += lost;
    x -= WIDE ? (R)9.5499954299656977e-17 : (R)1.243814993891891e-8;
    return over / under + (x * (R)0.99558162689208984 + x * p);
}
TD_FN R FR(digamma)(R x) {
    R r = x - MATH(rint)(x), y = x, lost = 0, more = 0; /* r: exact */
    if (x == 0) return -1 / x;
    if (x < 0) {
        if (r == 0 || r != r) return (x - x) / (x - x);
        y = 1 - x;
        lost = (1 - y) - x;
        more = MATH(fabs)(r) < (R)0.25
                   ? -PI / MATH(tan)(PI * r) /* beside it the cotangent is at its zero */
                   : MATH(copysign)(PI, -r) * MATH(tan)(PI * ((R)0.5 - MATH(fabs)(r)));
    } else if (x < 1) {
        y = x + 1;
        more = -1 / x;
    }
    return FR(digamma_of_1)(y, lost) + more;
}

#ifdef TD_COMPLEX
/* ---- exponentials and logarithms ---- */

TD_FN td_bool FR(endless)(R x) { return x == x && x - x != 0; }

/* exp(x) * (cos(y) + i*sin(y)) of finite y, where exp(x) alone may overflow. */
TD_FN Z FZ(turn)(R x, R y, R by) {
    td_bool large = x > LARGE;
    R e = MATH(exp)(large ? x / 2 : x), f = large ? e * by : by;
    return MAKE(e * MATH(cos)(y) * f, e * MATH(sin)(y) * f);
}

TD_FN Z FZ(exp)(Z a) {
    R x = a.re, y = a.im;
    if (y == 0) return MAKE(MATH(exp)(x), y);
    if (y - y == 0) return FZ(turn)(x, y, 1);
    if (FR(endless)(x)) return x < 0 ? MAKE(0, 0) : MAKE(x, y - y);
    return MAKE(y - y, y - y);
}

/* The real part is expm1(x)*cos(y) - 2*sin(y/2)**2, which cancels near a curve through 0: there its
** error is relative to |y|. */
TD_FN Z FZ(expm1)(Z a) {
    R x = a.re, y = a.im, s;
    if (y == 0) return MAKE(MATH(expm1)(x), y);
    if (y - y != 0 && FR(endless)(x) && x < 0) return MAKE(-1, 0);
    if (y - y != 0 || x > LARGE || x != x) return FZ(exp)(a);
    s = MATH(sin)(y / 2);
    return MAKE(MATH(expm1)(x) * MATH(cos)(y) - 2 * s * s, MATH(exp)(x) * MATH(sin)(y));
}

/* The angle y*log(2) has twice the digits: what it lost would turn the result. */
TD_FN Z FZ(exp2)(Z a) {
    R x = a.re, y = a.im, angle = y * LOG2;
    R lost = MATH(fma)(y, LOG2, -angle) + y * LOST, c, s;
    td_bool large = x > LARGE;
    R e = MATH(exp2)(large ? x / 2 : x), f = large ? e : 1;
    if (y == 0) return MAKE(MATH(exp2)(x), y);
    if (y - y != 0) return FZ(exp)(a);
    if (MATH(fabs)(y) < LOW)
        return MAKE(MATH(exp2)(x), e * y * LOG2 * f); /* the angle may be subnormal */
    c = MATH(cos)(angle), s = MATH(sin)(angle);
    return MAKE(e * (c - lost * s) * f, e * (s + lost * c) * f);
}

/* p + q = *sum exactly, with what is returned (Knuth). */
TD_FN R FR(two_sum)(R p, R q, R *sum) {
    R s = p + q, of_q = s - p;
    *sum = s;
    return (p - (s - of_q)) + (q - of_q);
}

/* log(1 + x + y*y + z*z) / 2 for a sum that is not far from 0: in thrice the digits, for the terms
** may cancel, and what they leave may too. */
TD_FN R FR(log_near_1)(R x, R y, R z) {
    R p = y * y, q = z * z, sum, low, rest;
    R of_p = MATH(fma)(y, y, -p), of_q = MATH(fma)(z, z, -q);
    R first = FR(two_sum)(x, p, &sum), second = FR(two_sum)(sum, q, &sum);
    rest = FR(two_sum)(of_p, of_q, &low);
    rest += FR(two_sum)(low, first, &low);
    rest += FR(two_sum)(low, second, &low);
    rest += FR(two_sum)(sum, low, &sum);
    return MATH(log1p)(sum + rest) / 2;
}

/* log(|x + i*y|) */
TD_FN R FR(log_abs)(R x, R y) {
    R a = MATH(fabs)(x), b = MATH(fabs)(y), n;
    if (FR(endless)(x) || FR(endless)(y)) return a > b || b != b ? a : b;
    if (b > a) n = a, a = b, b = n;
    if (b == 0 || a != a || b != b) return MATH(log)(a + b);
    n = a < 2 ? a * a + b * b : 4;
    if (n > (R)0.5 && n < 2) return FR(log_near_1)(-1, a, b);
    if (a >= TOP) return MATH(log)(MATH(hypot)(a / 4, b / 4)) + 2 * LOG2;
    if (a < LOW) {
        a = MATH(ldexp)(a, LIFT);
        b = MATH(ldexp)(b, LIFT);
        return MATH(log)(MATH(hypot)(a, b)) - LIFT * LOG2;
    }
    return MATH(log)(MATH(hypot)(a, b));
}
TD_FN Z FZ(log)(Z a) { return MAKE(FR(log_abs)(a.re, a.im), MATH(atan2)(a.im, a.re)); }
TD_FN Z FZ(log2)(Z a) {
    R re = a.im == 0 ? MATH(log2)(MATH(fabs)(a.re))
                     : FR(log_abs)(a.re, a.im) * (R)1.44269504088896340736;
    return MAKE(re, MATH(atan2)(a.im, a.re) * (R)1.44269504088896340736);
}
TD_FN Z FZ(log10)(Z a) {
    R re = a.im == 0 ? MATH(log10)(MATH(fabs)(a.re))
                     : FR(log_abs)(a.re, a.im) * (R)0.434294481903251827651;
    return MAKE(re, MATH(atan2)(a.im, a.re) * (R)0.434294481903251827651);
}
TD_FN Z FZ(log1p)(Z a) {
    R x = a.re, y = a.im, angle = MATH(atan2)(y, 1 + x), n;
    if (y == 0 && x >= -1) return MAKE(MATH(log1p)(x), y);
    n = MATH(fabs)(x) < 2 && MATH(fabs)(y) < 2 ? 2 * x + x * x + y * y : 4;
    if (n > (R)-0.5 && n < 1) return MAKE(FR(log_near_1)(2 * x, x, y), angle);
    return MAKE(FR(log_abs)(1 + x, y), angle);
}

/* ---- powers ---- */

/* Kahan's */
TD_FN Z FZ(sqrt)(Z a) {
    R x = a.re, y = a.im, t, by = 1;
    if (FR(endless)(y)) return MAKE(MATH(fabs)(y), y);
    if (x == 0 && y == 0) return MAKE(0, y);
    if (x != x) return MAKE(x, x);
    if (FR(endless)(x))
        return x > 0 ? MAKE(x, y == y ? MATH(copysign)((R)0, y) : y)
                     : MAKE(y == y ? (R)0 : y, MATH(copysign)(x, y));
    if (MATH(fabs)(x) >= TOP || MATH(fabs)(y) >= TOP) {
        x /= 16, y /= 16, by = 4;
    } else if (MATH(fabs)(x) < LOW && MATH(fabs)(y) < LOW) {
        x = MATH(ldexp)(x, LIFT);
        y = MATH(ldexp)(y, LIFT);
        by = MATH(ldexp)((R)1, -LIFT / 2);
    }
    t = MATH(sqrt)((MATH(fabs)(x) + MATH(hypot)(x, y)) / 2);
    return a.re >= 0 ? MAKE(t * by, y / (2 * t) * by)
                     : MAKE(MATH(fabs)(y) / (2 * t) * by, MATH(copysign)(t, y) * by);
}

TD_FN Z FZ(pow)(Z a, Z b) {
    R n = MATH(fabs)(b.re);
    if (b.re == 0 && b.im == 0) return MAKE(1, 0);
    if (a.re == 0 && a.im == 0) return b.re > 0 ? MAKE(0, 0) : MAKE(a.re / a.re, a.re / a.re);
    if (b.im == 0 && n <= 100 && n == MATH(trunc)(n)) {
        Z x = a, p = a;
        td_bool begun = 0;
        for (td_i32 k = (td_i32)n; k; k >>= 1) {
            if (k & 1) p = begun ? FZ(mul)(p, x) : x, begun = 1;
            if (k > 1) x = FZ(mul)(x, x);
        }
        if (b.re < 0) p = FZ(reciprocal)(p);
        if (FZ(isfinite)(p) && (p.re != 0 || p.im != 0)) return p; /* nothing overflowed */
    }
    return FZ(exp)(FZ(mul)(b, FZ(log)(a)));
}

/* ---- hyperbolic and trigonometric functions ---- */

TD_FN Z FZ(sinh)(Z a) {
    R x = a.re, y = a.im;
    if (y == 0) return MAKE(MATH(sinh)(x), y);
    if (y - y != 0) return MAKE(x == 0 || FR(endless)(x) ? x : y - y, y - y);
    if (MATH(fabs)(x) > LARGE) {
        Z z = FZ(turn)(MATH(fabs)(x), y, (R)0.5);
        return MAKE(MATH(copysign)((R)1, x) * z.re, z.im);
    }
    return MAKE(MATH(sinh)(x) * MATH(cos)(y), MATH(cosh)(x) * MATH(sin)(y));
}
TD_FN Z FZ(cosh)(Z a) {
    R x = a.re, y = a.im, sign = MATH(copysign)((R)1, x);
    if (y == 0) return MAKE(MATH(cosh)(x), y * sign);
    if (y - y != 0) return MAKE(FR(endless)(x) ? MATH(fabs)(x) : y - y, x == 0 ? (R)0 : y - y);
    if (MATH(fabs)(x) > LARGE) {
        Z z = FZ(turn)(MATH(fabs)(x), y, (R)0.5);
        return MAKE(z.re, sign * z.im);
    }
    return MAKE(MATH(cosh)(x) * MATH(cos)(y), MATH(sinh)(x) * MATH(sin)(y));
}
/* Kahan's */
TD_FN Z FZ(tanh)(Z a) {
    R x = a.re, y = a.im, t, b, s, d;
    if (FR(endless)(x))
        return MAKE(MATH(copysign)((R)1, x),
                    MATH(copysign)((R)0, y - y == 0 ? MATH(sin)(y) * MATH(cos)(y) : y));
    if (y == 0) return MAKE(MATH(tanh)(x), y);
    if (y - y != 0) return MAKE(x == 0 ? x : y - y, y - y);
    if (MATH(fabs)(x) > 22) { /* 1 but for what rounding takes */
        s = MATH(exp)(-MATH(fabs)(x));
        return MAKE(MATH(copysign)((R)1, x), 4 * MATH(sin)(y) * MATH(cos)(y) * s * s);
    }
    t = MATH(tan)(y);
    s = MATH(sinh)(x);
    b = 1 + t * t;
    d = 1 + b * s * s;
    return MAKE(b * MATH(sqrt)(1 + s * s) * s / d, t / d);
}
/* By i*z: sin(z) is -i*sinh(i*z). */
TD_FN Z FZ(turned)(Z a) { return MAKE(-a.im, a.re); }
TD_FN Z FZ(turned_back)(Z a) { return MAKE(a.im, -a.re); }
TD_FN Z FZ(sin)(Z a) { return FZ(turned_back)(FZ(sinh)(FZ(turned)(a))); }
TD_FN Z FZ(cos)(Z a) { return FZ(cosh)(FZ(turned)(a)); }
TD_FN Z FZ(tan)(Z a) { return FZ(turned_back)(FZ(tanh)(FZ(turned)(a))); }

/* ---- their inverses ---- */

/* Hull, Fairgrieve, Tang: of finite x, y >= 0 the arcsine, or the arccosine without its sign. */
TD_FN R FR(arc_log)(R x, R y, R r, R s, R a) { /* the imaginary part */
    R d;
    if (a > 10) return MATH(log)(a + MATH(sqrt)(a * a - 1));
    d = y * (y / (r + (x + 1)));
    d = (d + (x < 1 ? y * (y / (s + (1 - x))) : s + (x - 1))) / 2;
    return MATH(log1p)(d + MATH(sqrt)(d * (a + 1)));
}
TD_FN R FR(arc_root)(R x, R y, R r, R s, R a) { /* sqrt(a*a - x*x) */
    if (x <= 1) return MATH(sqrt)((a + x) / 2 * (y * (y / (r + (x + 1))) + (s + (1 - x))));
    return y * MATH(sqrt)(((a + x) / (r + (x + 1)) + (a + x) / (s + (x - 1))) / 2);
}
/* Where squares overflow or vanish, or y does beside x. */
TD_FN Z FZ(arc_far)(R x, R y, td_bool cosine) {
    const R half = PI / 2;
    R m = MATH(fabs)(x - 1), a;
    if (y <= EPSILON * m) {
        if (x < 1)
            return MAKE(cosine ? MATH(acos)(x) : MATH(asin)(x), y / MATH(sqrt)((1 + x) * (1 - x)));
        if (x >= SQUARED) return MAKE(cosine ? y / x : half, LOG2 + MATH(log)(x));
        a = MATH(sqrt)((x + 1) * m);
        return MAKE(!cosine ? half : y == 0 ? y : y / a, MATH(log1p)(m + a));
    }
    if (y <= 1 / SQUARED) { /* x is 1 */
        a = MATH(sqrt)(y);
        return MAKE(cosine ? a : half - a, a);
    }
    if (EPSILON * y - 1 >= x) return MAKE(cosine ? half : x / y, LOG2 + MATH(log)(y));
    if (x > 1) {
        a = x / y;
        return MAKE(cosine ? MATH(atan)(y / x) : MATH(atan)(a),
                    LOG2 + MATH(log)(y) + MATH(log1p)(a * a) / 2);
    }
    a = MATH(sqrt)(1 + y * y);
    return MAKE(cosine ? half - x / a : x / a, MATH(log1p)(2 * y * (y + a)) / 2);
}
TD_FN Z FZ(arc)(R x, R y, td_bool cosine) {
    R r, s, a, re;
    if (!(x < SQUARED && y < SQUARED && x > 1 / SQUARED && y > 1 / SQUARED))
        return FZ(arc_far)(x, y, cosine);
    r = MATH(hypot)(x + 1, y);
    s = MATH(hypot)(x - 1, y);
    a = (r + s) / 2;
    if (x / a <= (R)0.6417)
        re = cosine ? MATH(acos)(x / a) : MATH(asin)(x / a);
    else if (cosine)
        re = MATH(atan)(FR(arc_root)(x, y, r, s, a) / x);
    else
        re = MATH(atan)(x / FR(arc_root)(x, y, r, s, a));
    return MAKE(re, FR(arc_log)(x, y, r, s, a));
}
TD_FN Z FZ(asin)(Z a) {
    R x = MATH(fabs)(a.re), y = MATH(fabs)(a.im);
    Z z;
    if (x - x == 0 && y - y == 0)
        z = FZ(arc)(x, y, 0);
    else if (FR(endless)(x))
        z = MAKE(y != y ? y : y - y != 0 ? PI / 4 : PI / 2, x);
    else if (FR(endless)(y))
        z = MAKE(x != x ? x : (R)0, y);
    else
        z = MAKE(x == 0 ? x : x + y, x + y);
    return MAKE(MATH(copysign)(z.re, a.re), MATH(copysign)(z.im, a.im));
}
TD_FN Z FZ(acos)(Z a) {
    R x = MATH(fabs)(a.re), y = MATH(fabs)(a.im);
    Z z;
    if (x - x == 0 && y - y == 0)
        z = FZ(arc)(x, y, 1);
    else if (FR(endless)(x))
        z = MAKE(y != y ? y : y - y != 0 ? PI / 4 : (R)0, x);
    else if (FR(endless)(y))
        z = MAKE(x != x ? x : PI / 2, y);
    else
        z = MAKE(x == 0 ? PI / 2 : x + y, x + y);
    return MAKE(FR(signbit)(a.re) ? PI - z.re : z.re, FR(signbit)(a.im) ? z.im : -z.im);
}
TD_FN Z FZ(acosh)(Z a) {
    Z z = FZ(acos)(a);
    return MAKE(MATH(fabs)(z.im), MATH(copysign)(z.re, a.im));
}
TD_FN Z FZ(asinh)(Z a) { return FZ(turned)(FZ(asin)(FZ(turned_back)(a))); }

/* The real part is log1p(4x / ((1-x)**2 + y**2)) / 4. */
TD_FN Z FZ(atanh)(Z a) {
    R x = MATH(fabs)(a.re), y = MATH(fabs)(a.im), re, im, m = 1 - x;
    if (x - x != 0 || y - y != 0) {
        re = FR(endless)(x) || FR(endless)(y) || x == 0 ? (R)0 : x + y;
        im = FR(endless)(y) || (FR(endless)(x) && y == y) ? PI / 2 : x + y;
        if (FR(endless)(x) && y != y) im = y;
    } else if (x > 2 / EPSILON || y > 2 / EPSILON) {
        R n = x > y ? x : y, p = x / n, q = y / n; /* 1/z is all but exact */
        re = p / (p * p + q * q) / n;
        im = PI / 2;
    } else {
        re = x == 1 && y < EPSILON && y > 0 ? (LOG2 - MATH(log)(y)) / 2
                                            : MATH(log1p)(4 * x / (m * m + y * y)) / 4;
        im = MATH(atan2)(2 * y, m * (1 + x) - y * y) / 2;
    }
    return MAKE(MATH(copysign)(re, a.re), MATH(copysign)(im, a.im));
}
TD_FN Z FZ(atan)(Z a) { return FZ(turned_back)(FZ(atanh)(FZ(turned)(a))); }
#endif

#undef R
#undef FR
#undef MATH
#undef Z
#undef FZ
#undef MAKE
#undef WIDE
#undef EPSILON
#undef LOST
#undef LARGE
#undef SQUARED
#undef TOP
#undef LOW
#undef LIFT
#undef PI
#undef LOG2
