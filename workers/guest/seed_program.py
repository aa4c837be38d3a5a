"""A static program of 300 bytes for guests without an interpreter: it gives bytes to the kernel's random generator, to be used at once.

A shell can write to /dev/urandom, but what it writes waits for the kernel's next reseeding; two ioctl calls do not wait, and no program of
the distribution makes both. No compiler is needed where an image is built: the instructions stand here, each beside its bytes.

The program opens /dev/urandom, reads up to 4096 bytes from standard input to its end, and calls RNDADDENTROPY with all of them, then
RNDRESEEDCRNG. Exit code 0: in use. 2: /dev/urandom could not be opened. 3: nothing was read. 4, 5: the first, the second call was refused.
"""

from workers.guest.static_program import program

PATH = b"/dev/urandom\0"  # stands behind the code, which finds it relative to itself

X86_64 = """
4881ec10100000    sub rsp,0x1010
b801010000        mov eax,0x101
bf9cffffff        mov edi,0xffffff9c
488d3595000000    lea rsi,[rip+0x95]
ba01000000        mov edx,0x1
4531d2            xor r10d,r10d
0f05              syscall
41bc02000000      mov r12d,0x2
85c0              test eax,eax
7877              js exit
4189c5            mov r13d,eax
31db              xor ebx,ebx
                 more:
31c0              xor eax,eax
31ff              xor edi,edi
488d741c08        lea rsi,[rsp+rbx*1+0x8]
ba00100000        mov edx,0x1000
29da              sub edx,ebx
0f05              syscall
41bc03000000      mov r12d,0x3
85c0              test eax,eax
7856              js exit
740a              je done
01c3              add ebx,eax
81fb00100000      cmp ebx,0x1000
75d8              jne more
                 done:
85db              test ebx,ebx
7446              je exit
8d04dd00000000    lea eax,[rbx*8+0x0]
890424            mov DWORD PTR [rsp],eax
895c2404          mov DWORD PTR [rsp+0x4],ebx
b810000000        mov eax,0x10
4489ef            mov edi,r13d
be03520840        mov esi,0x40085203
4889e2            mov rdx,rsp
0f05              syscall
41bc04000000      mov r12d,0x4
85c0              test eax,eax
781c              js exit
b810000000        mov eax,0x10
4489ef            mov edi,r13d
be07520000        mov esi,0x5207
0f05              syscall
41bc05000000      mov r12d,0x5
85c0              test eax,eax
7803              js exit
4531e4            xor r12d,r12d
                 exit:
b83c000000        mov eax,0x3c
4489e7            mov edi,r12d
0f05              syscall
"""

AARCH64 = """
ff0740d1  sub sp, sp, #0x1, lsl #12
ff4300d1  sub sp, sp, #0x10
080780d2  mov x8, #0x38
600c8092  mov x0, #0xffffffffffffff9c
41050010  adr x1, path
220080d2  mov x2, #0x1
030080d2  mov x3, #0x0
010000d4  svc #0x0
530080d2  mov x19, #0x2
4004f837  tbnz w0, #31, exit
f403002a  mov w20, w0
150080d2  mov x21, #0x0
         more:
e80780d2  mov x8, #0x3f
000080d2  mov x0, #0x0
e1230091  add x1, sp, #0x8
2100158b  add x1, x1, x21
020082d2  mov x2, #0x1000
420015cb  sub x2, x2, x21
010000d4  svc #0x0
730080d2  mov x19, #0x3
e002f837  tbnz w0, #31, exit
80000034  cbz w0, done
b502008b  add x21, x21, x0
bf0640f1  cmp x21, #0x1, lsl #12
81feff54  b.ne more
         done:
550200b4  cbz x21, exit
a3721d53  lsl w3, w21, #3
e3570029  stp w3, w21, [sp]
a80380d2  mov x8, #0x1d
e003142a  mov w0, w20
61408a52  mov w1, #0x5203
0101a872  movk w1, #0x4008, lsl #16
e2030091  mov x2, sp
010000d4  svc #0x0
930080d2  mov x19, #0x4
0001f837  tbnz w0, #31, exit
a80380d2  mov x8, #0x1d
e003142a  mov w0, w20
e1408a52  mov w1, #0x5207
010000d4  svc #0x0
b30080d2  mov x19, #0x5
4000f837  tbnz w0, #31, exit
130080d2  mov x19, #0x0
         exit:
a80b80d2  mov x8, #0x5d
e00313aa  mov x0, x19
010000d4  svc #0x0
"""

LISTINGS = {"x86_64": X86_64, "aarch64": AARCH64}


def seed_program(architecture: str) -> bytes:
    """The program as an ELF file. Raises ImageError for an architecture that it was not written for."""
    return program("seed", architecture, LISTINGS, PATH)
