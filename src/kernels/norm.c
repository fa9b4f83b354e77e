#include "kernels/kn.h"

#include "base/util.h"

enum { PIECE = 4096, GROUPS = PIECE / KN_SQ_GROUP };

void kn_sq_norm(struct kn_exact *sum, const struct kn_ops *k, const struct kn_grads *g, float scale,
                size_t n)
{
    double squares[GROUPS];

    for (size_t at = 0; at < n; at += PIECE) {
        const size_t len = VB_MIN(n - at, (size_t)PIECE);

        k->sq(squares, g, scale, at, len);
        kn_exact_add(sum, squares, (len + KN_SQ_GROUP - 1) / KN_SQ_GROUP);
    }
}

void kn_lamb_norms(struct kn_exact *w_sum, struct kn_exact *u_sum, const struct kn_ops *k,
                   const float *w, const float *m, const float *v, const struct kn_grads *g,
                   const struct kn_opt *o, const struct kn_step *s, size_t n)
{
    double ws[GROUPS], us[GROUPS];

    for (size_t at = 0; at < n; at += PIECE) {
        const size_t len = VB_MIN(n - at, (size_t)PIECE);
        const size_t groups = (len + KN_SQ_GROUP - 1) / KN_SQ_GROUP;

        k->lamb_sq(ws, us, w, m, v, g, o, s, at, len);
        kn_exact_add(w_sum, ws, groups);
        kn_exact_add(u_sum, us, groups);
    }
}
