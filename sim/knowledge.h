/* A source of evidence knows so much of a step, and an axis of a forecast takes so much. */
#ifndef LK_SIM_KNOWLEDGE_H
#define LK_SIM_KNOWLEDGE_H

/* Who knows one kind also knows those before it. */
enum lk_knowledge {
    LK_KNOWS_COUNTS,      /* GPUs, nodes, local batch, accumulation */
    LK_KNOWS_COLLECTIVES, /* gradients and their exchange over the network */
    LK_KNOWS_RANKS        /* the compute of each rank on its device, and its memory */
};

#endif
