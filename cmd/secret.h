/*
 * secret.h - the key of a job, from a file or from the environment.
 */
#ifndef CMD_SECRET_H
#define CMD_SECRET_H

#include "base/util.h"
#include "verbena/status.h"

enum { SECRET_KEY_BYTES = 32 };

/*
 * key = BLAKE2b-256 of the secret without white space at its end, so that a file and a variable with
 * its text agree. path: a file that only its owner may read; NULL: the variable VB_SECRET, which is
 * wiped and removed. VB_INVAL/VB_IO: err is a line that says what to do.
 */
VB_MUST_CHECK enum vb_st secret_read(const char *path, unsigned char key[SECRET_KEY_BYTES],
                                     struct vb_err *err);

/* Removes VB_SECRET from the environment and from its memory. */
void secret_forget(void);

/* A fresh secret as text, for VB_SECRET. */
void secret_make(char text[2 * SECRET_KEY_BYTES + 1]);

#endif
