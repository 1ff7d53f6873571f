/* kin: which architectures are of one kind: what is learnt of one says much of the others. */
#ifndef PL_LAB_KIN_H
#define PL_LAB_KIN_H

/* Of a model's name ("resnext50_32x4d"), *length characters of the name that it shares with its kin
 * ("resnet"); of the table or of the name, not terminated. */
const char *pl_kin_of(const char *name, int *length);

#endif
